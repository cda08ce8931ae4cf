package pintle.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.util.Watch;
import java.nio.file.Files;
import java.util.Map;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

/** A cluster for a class, with the official client. */
@PintleCluster
class OfficialClientTest {
    private final Cluster cluster;

    OfficialClientTest(Cluster cluster) {
        this.cluster = cluster;
    }

    @Test
    void itCreatesListsAndWatches() throws Exception {
        ApiClient client = Clients.client(cluster.kubeconfig());
        client.setReadTimeout(60_000);
        CoreV1Api core = new CoreV1Api(client);
        Clients.createConfigMap(core, "first");
        var list = core.listNamespacedConfigMap("default").execute();
        V1ConfigMap first = list.getItems().stream()
                .filter(item -> item.getMetadata().getName().equals("first"))
                .findFirst()
                .orElseThrow();
        assertEquals(Map.of("key", "value"), first.getData());

        var request = core.listNamespacedConfigMap("default")
                .watch(true)
                .resourceVersion(list.getMetadata().getResourceVersion());
        var type = new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType();
        try (Watch<V1ConfigMap> watch = Watch.createWatch(client, request.buildCall(null), type)) {
            Clients.createConfigMap(core, "second");
            Watch.Response<V1ConfigMap> event = watch.next();
            assertEquals("ADDED", event.type);
            assertEquals("second", event.object.getMetadata().getName());
        }
    }

    @Test
    void aUserWithoutARoleIsRefused() throws Exception {
        Kubeconfig jane = cluster.user("jane", "team: a", "other");
        assertEquals(jane.text(), Files.readString(jane.path()));
        CoreV1Api core = Clients.core(jane.text());
        ApiException refused = assertThrows(
                ApiException.class, () -> core.listNamespacedSecret("default").execute());
        assertEquals(403, refused.getCode());
        assertTrue(
                refused.getResponseBody().contains("User \\\"jane\\\" cannot list resource \\\"secrets\\\""),
                refused.getResponseBody());
    }

    @Test
    void aUserThatTheServerRefusesIsAnError() {
        var refused = assertThrows(PintleException.class, () -> cluster.user(""));
        assertTrue(refused.getMessage().startsWith("pintle kubeconfig failed: "), refused.getMessage());
    }

    @Test
    void theFileHasTheKubeconfig() throws Exception {
        assertEquals(cluster.kubeconfig(), Files.readString(cluster.kubeconfigPath()));
        assertTrue(cluster.kubeconfig().contains("server: " + cluster.url() + "\n"));
    }

    @Nested
    class NestedClass {
        @Test
        void itUsesTheClusterOfTheClassAroundIt(Cluster same) {
            assertEquals(cluster.url(), same.url());
        }
    }

    @Nested
    @PintleCluster(args = "--service-cluster-ip-range=10.200.0.0/16")
    class NestedClassWithACluster {
        @Test
        void itSharesNothingWithTheClassAroundIt(Cluster own) throws Exception {
            assertNotEquals(cluster.url(), own.url());
            CoreV1Api core = Clients.core(own.kubeconfig());
            Clients.createConfigMap(core, "only-in-own");
            assertTrue(Clients.configMapNames(core).contains("only-in-own"));
            assertFalse(Clients.configMapNames(Clients.core(cluster.kubeconfig())).contains("only-in-own"));
            var service = core.readNamespacedService("kubernetes", "default").execute();
            assertEquals("10.200.0.1", service.getSpec().getClusterIP());
        }
    }
}
