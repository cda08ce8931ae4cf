package pintle.junit;

import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** Passes a {@link Cluster} to parameters of tests, and stops it. {@link PintleCluster} registers this extension. */
public final class PintleExtension implements ParameterResolver {
    private static final ExtensionContext.Namespace NAMESPACE = ExtensionContext.Namespace.create(PintleExtension.class);

    /** Creates the extension. */
    public PintleExtension() {}

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Cluster.class;
    }

    @Override
    public Cluster resolveParameter(ParameterContext parameter, ExtensionContext context) {
        ExtensionContext annotated = annotatedClass(context);
        PintleCluster options = annotation(annotated).orElseThrow();
        ExtensionContext owner = annotated;
        if (options.scope() == PintleCluster.Scope.METHOD) {
            if (context.getTestMethod().isEmpty()) {
                throw new ParameterResolutionException(
                        "a cluster with the scope METHOD is for test methods and the methods before and after each");
            }
            owner = context;
        }
        return owner.getStore(NAMESPACE)
                // A store also has the values of the stores around it. The key limits a cluster to its class or method.
                .getOrComputeIfAbsent(owner.getUniqueId(), key -> new Stored(start(options)), Stored.class)
                .cluster();
    }

    private static Cluster start(PintleCluster options) {
        return Cluster.builder()
                .args(options.args())
                .kubernetesVersion(options.kubernetesVersion())
                .timeout(Duration.ofSeconds(options.timeoutSeconds()))
                .start();
    }

    /** The context of the annotated class: the test class or a class around it. */
    private static ExtensionContext annotatedClass(ExtensionContext context) {
        Optional<ExtensionContext> next = Optional.of(context);
        while (next.isPresent()) {
            ExtensionContext candidate = next.get();
            if (candidate.getTestMethod().isEmpty() && annotation(candidate).isPresent()) {
                return candidate;
            }
            next = candidate.getParent();
        }
        throw new ParameterResolutionException("the test class has no annotation @PintleCluster");
    }

    private static Optional<PintleCluster> annotation(ExtensionContext context) {
        return context.getElement().flatMap(element -> AnnotationSupport.findAnnotation(element, PintleCluster.class));
    }

    /** Stops the cluster at the end of the class or method. JUnit before 5.13 knows only its own interface for this. */
    @SuppressWarnings("deprecation")
    private record Stored(Cluster cluster) implements ExtensionContext.Store.CloseableResource, AutoCloseable {
        @Override
        public void close() {
            cluster.close();
        }
    }
}
