package pintle.junit;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives the tests of a class a Kubernetes API server: constructors, methods and life cycle methods may have a parameter
 * of the type {@link Cluster}. The server starts when JUnit resolves the first of these parameters.
 *
 * <p>Nested classes use the cluster of the class around them, unless they have an annotation of their own.
 */
@Documented
@Inherited
@ExtendWith(PintleExtension.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.TYPE, ElementType.ANNOTATION_TYPE})
public @interface PintleCluster {
    /** Returns the lifetime of a cluster. */
    Scope scope() default Scope.CLASS;

    /** Returns further arguments of {@code pintle serve}. */
    String[] args() default {};

    /** Returns the minor version of Kubernetes that the cluster is, such as 1.35; the newest one if it is empty. */
    String kubernetesVersion() default "";

    /** Returns how many seconds the start may take. */
    int timeoutSeconds() default 30;

    /** The lifetime of a cluster. */
    enum Scope {
        /** One cluster for all tests of the class. */
        CLASS,
        /** A cluster for each test method. Constructors and methods for all tests cannot have it as a parameter. */
        METHOD
    }
}
