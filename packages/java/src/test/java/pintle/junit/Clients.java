package pintle.junit;

import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.apis.VersionApi;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.Config;
import java.io.IOException;
import java.io.StringReader;
import java.util.List;
import java.util.Map;

/** The official client, for the tests. */
final class Clients {
    private Clients() {}

    static ApiClient client(String kubeconfig) throws IOException {
        return Config.fromConfig(new StringReader(kubeconfig));
    }

    static CoreV1Api core(String kubeconfig) throws IOException {
        return new CoreV1Api(client(kubeconfig));
    }

    static String gitVersion(String kubeconfig) throws IOException, ApiException {
        return new VersionApi(client(kubeconfig)).getCode().execute().getGitVersion();
    }

    static void createConfigMap(CoreV1Api core, String name) throws ApiException {
        V1ConfigMap object = new V1ConfigMap().metadata(new V1ObjectMeta().name(name)).data(Map.of("key", "value"));
        core.createNamespacedConfigMap("default", object).execute();
    }

    static List<String> configMapNames(CoreV1Api core) throws ApiException {
        return core.listNamespacedConfigMap("default").execute().getItems().stream()
                .map(item -> item.getMetadata().getName())
                .toList();
    }
}
