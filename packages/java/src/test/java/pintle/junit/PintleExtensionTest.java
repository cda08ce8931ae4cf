package pintle.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.testkit.engine.EventConditions.event;
import static org.junit.platform.testkit.engine.EventConditions.finishedWithFailure;
import static org.junit.platform.testkit.engine.TestExecutionResultConditions.message;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.platform.testkit.engine.EngineTestKit;

/** The lifetime of clusters, and the parameters that get them. */
class PintleExtensionTest {
    /** The clusters that the classes below have seen. */
    private static final List<Path> SEEN = new ArrayList<>();

    private static final String METHOD_ONLY =
            "a cluster with the scope METHOD is for test methods and the methods before and after each";

    @BeforeEach
    void forget() {
        SEEN.clear();
    }

    private static void see(Cluster cluster) {
        assertTrue(Files.exists(cluster.kubeconfigPath()));
        SEEN.add(cluster.kubeconfigPath());
    }

    private static EngineTestKit.Builder tests(Class<?> type) {
        return EngineTestKit.engine("junit-jupiter").selectors(selectClass(type));
    }

    @Test
    void aClassHasOneCluster() {
        tests(OnePerClass.class).execute().testEvents().assertStatistics(events -> events.succeeded(2));
        assertEquals(5, SEEN.size());
        assertEquals(1, Set.copyOf(SEEN).size());
        assertFalse(Files.exists(SEEN.get(0).getParent()));
    }

    @Test
    void aMethodHasItsOwnCluster() {
        tests(OnePerMethod.class).execute().testEvents().assertStatistics(events -> events.succeeded(2));
        assertEquals(4, SEEN.size());
        assertEquals(SEEN.get(0), SEEN.get(1));
        assertEquals(SEEN.get(2), SEEN.get(3));
        assertEquals(2, Set.copyOf(SEEN).size());
        SEEN.forEach(path -> assertFalse(Files.exists(path.getParent())));
    }

    @Test
    void aClusterOfAMethodIsNotForAllMethods() {
        tests(MethodForAll.class)
                .execute()
                .containerEvents()
                .assertThatEvents()
                .haveExactly(1, event(finishedWithFailure(message(text -> text.contains(METHOD_ONLY)))));
        assertEquals(List.of(), SEEN);
    }

    @Test
    void theAnnotationIsNeeded() {
        String expected = "the test class has no annotation @PintleCluster";
        tests(WithoutAnnotation.class)
                .execute()
                .testEvents()
                .assertThatEvents()
                .haveExactly(1, event(finishedWithFailure(message(text -> text.contains(expected)))));
    }

    @PintleCluster
    static class OnePerClass {
        @BeforeAll
        static void beforeAll(Cluster cluster) {
            see(cluster);
        }

        @BeforeEach
        void beforeEach(Cluster cluster) {
            see(cluster);
        }

        @Test
        void one(Cluster cluster) {
            see(cluster);
        }

        @Test
        void two(Cluster cluster) {
            see(cluster);
        }
    }

    @PintleCluster(scope = PintleCluster.Scope.METHOD)
    static class OnePerMethod {
        @BeforeEach
        void beforeEach(Cluster cluster) {
            see(cluster);
        }

        @Test
        void one(Cluster cluster) {
            see(cluster);
        }

        @Test
        void two(Cluster cluster) {
            see(cluster);
        }
    }

    @PintleCluster(scope = PintleCluster.Scope.METHOD)
    static class MethodForAll {
        @BeforeAll
        static void beforeAll(Cluster cluster) {
            see(cluster);
        }

        @Test
        void test() {}
    }

    @ExtendWith(PintleExtension.class)
    static class WithoutAnnotation {
        @Test
        void test(Cluster cluster) {}
    }
}
