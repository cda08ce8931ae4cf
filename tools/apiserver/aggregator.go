package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/informers"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
)

// aggregation are the options of the aggregation layer. It runs if a client certificate for the proxy is given.
type aggregation struct {
	proxyClientCert, proxyClientKey string
	endpointRouting                 bool
	rejectRedirects                 bool
	requestHeader                   genericoptions.RequestHeaderAuthenticationOptions
}

func (a *aggregation) addFlags(set *pflag.FlagSet) {
	set.StringVar(&a.proxyClientCert, "proxy-client-cert-file", "",
		"The client certificate with which the proxy connects to aggregated servers. It turns the aggregation layer on.")
	set.StringVar(&a.proxyClientKey, "proxy-client-key-file", "", "The key of the proxy's client certificate.")
	set.BoolVar(&a.endpointRouting, "enable-aggregator-routing", false, "Send requests to the endpoints of a service, not to its cluster IP.")
	set.BoolVar(&a.rejectRedirects, "aggregator-reject-forwarding-redirect", true, "Do not forward redirects of aggregated servers to clients.")
	a.requestHeader.AddFlags(set)
}

func (a *aggregation) enabled() bool { return a.proxyClientCert != "" }

// apply makes the changes to the configuration that all servers of the chain share.
func (a *aggregation) apply(config *genericapiserver.RecommendedConfig) error {
	headers, err := a.requestHeader.ToAuthenticationRequestHeaderConfig()
	if err != nil {
		return err
	}
	// The authentication removes these headers from requests of clients.
	config.Authentication.RequestHeaderConfig = headers
	return nil
}

// serviceResolver finds the address of a service as kube-apiserver does. The service "kubernetes" is this server.
func (a *aggregation) serviceResolver(informers informers.SharedInformerFactory, self string) (aggregator.ServiceResolver, error) {
	services := informers.Core().V1().Services().Lister()
	resolver := aggregator.NewClusterIPServiceResolver(services)
	if a.endpointRouting {
		slices, err := proxy.NewEndpointSliceIndexerGetter(informers.Discovery().V1().EndpointSlices())
		if err != nil {
			return nil, err
		}
		resolver = aggregator.NewEndpointServiceResolver(services, slices)
	}
	address, err := url.Parse(self)
	if err != nil {
		return nil, err
	}
	return aggregator.NewLoopbackServiceResolver(resolver, address), nil
}

// newAggregator makes the server in front of the chain. It proxies the group versions of APIServices with a service and
// gives all other requests to the delegate.
func newAggregator(config genericapiserver.RecommendedConfig, etcd genericoptions.EtcdOptions, options *aggregation, self string,
	delegate *genericapiserver.GenericAPIServer, definitions apiextensionsinformers.CustomResourceDefinitionInformer) (*aggregator.APIAggregator, error) {
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	config.RESTOptionsGetter = nil
	// The aggregator has handlers of its own, which merge the documents.
	config.SkipOpenAPIInstallation = true
	etcd.StorageConfig.Codec = aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiregistrationv1.SchemeGroupVersion,
		schema.GroupKind{Group: apiregistrationv1beta1.GroupName})
	etcd.SkipHealthEndpoints = true
	if err := etcd.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	config.MergedResourceConfig = aggregator.DefaultAPIResourceConfigSource()
	schemas := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(aggregatoropenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(aggregatorscheme.Scheme, clientscheme.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(schemas, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(schemas, namer)

	resolver, err := options.serviceResolver(config.SharedInformerFactory, self)
	if err != nil {
		return nil, err
	}
	created, err := (&aggregator.Config{
		GenericConfig: &config,
		ExtraConfig: aggregator.ExtraConfig{
			ProxyClientCertFile:       options.proxyClientCert,
			ProxyClientKeyFile:        options.proxyClientKey,
			ServiceResolver:           resolver,
			RejectForwardingRedirects: options.rejectRedirects,
		},
	}).Complete().NewWithDelegate(delegate)
	if err != nil {
		return nil, err
	}
	for version, priority := range priorities {
		config.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(version), int(priority.group), int(priority.version))
	}
	return created, registerLocal(created, config, delegate, definitions)
}

// priority is the place of a group version in discovery.
type priority struct{ group, version int32 }

// priorities are kube-apiserver's, for the group versions that this program serves.
var priorities = map[schema.GroupVersion]priority{
	{Group: "", Version: "v1"}:                     {18000, 1},
	{Group: "apps", Version: "v1"}:                 {17800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:  {16500, 15},
	{Group: "discovery.k8s.io", Version: "v1"}:     {16200, 15},
}

// registerLocal creates an APIService for each group version of the delegate and of the definitions.
func registerLocal(created *aggregator.APIAggregator, config genericapiserver.RecommendedConfig,
	delegate *genericapiserver.GenericAPIServer, definitions apiextensionsinformers.CustomResourceDefinitionInformer) error {
	client, err := apiregistrationclient.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return err
	}
	services := created.APIRegistrationInformers.Apiregistration().V1().APIServices()
	controller := autoregister.NewAutoRegisterController(services, client)
	var names []string
	for _, path := range delegate.ListedPaths() {
		version, ok := groupVersion(path)
		priority, known := priorities[version]
		if !ok || !known {
			continue
		}
		service := localService(version, priority)
		controller.AddAPIServiceToSyncOnStart(service)
		names = append(names, service.Name)
	}
	registration := newDefinitionRegistration(definitions, controller)
	server := created.GenericAPIServer
	err = server.AddPostStartHook("autoregistration", func(hook genericapiserver.PostStartHookContext) error {
		go registration.run(hook)
		go func() {
			// Without the definitions, the controller would delete the APIServices of definitions that still exist.
			select {
			case <-registration.synced:
				controller.Run(5, hook.Done())
			case <-hook.Done():
			}
		}()
		return nil
	})
	if err != nil {
		return err
	}
	return server.AddBootSequenceHealthChecks(healthz.NamedCheck("autoregister-completion", func(*http.Request) error {
		for _, name := range names {
			service, err := services.Lister().Get(name)
			if err != nil {
				return err
			}
			if !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
				return fmt.Errorf("the APIService %s is not available", name)
			}
		}
		return nil
	}))
}

// groupVersion returns the group version whose resources are below a path, which is /api/v1 or /apis/GROUP/VERSION.
func groupVersion(path string) (schema.GroupVersion, bool) {
	if path == "/api/v1" {
		return schema.GroupVersion{Version: "v1"}, true
	}
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[1] != "apis" {
		return schema.GroupVersion{}, false
	}
	return schema.GroupVersion{Group: parts[2], Version: parts[3]}, true
}

func localService(version schema.GroupVersion, priority priority) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version.Version + "." + version.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: version.Group, Version: version.Version,
			GroupPriorityMinimum: priority.group, VersionPriority: priority.version,
		},
	}
}

// runAggregator prepares the aggregator and returns the function that runs it.
func runAggregator(server *aggregator.APIAggregator) (func(context.Context) error, error) {
	prepared, err := server.PrepareRun()
	return prepared.Run, err
}
