package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	nooptrace "go.opentelemetry.io/otel/trace/noop"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	endpointfilters "k8s.io/apiserver/pkg/endpoints/filters"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// adminToken is the bearer token of a member of system:masters.
const adminToken = "bench"

// options of the server.
type options struct {
	// watchCache says that reads are served from the watch cache, as by default.
	watchCache bool
	// aggregation are the options of the aggregation layer.
	aggregation aggregation
	// audit are the options of the audit policy and its backends.
	audit *genericoptions.AuditOptions
	// flowControl says that API Priority and Fairness takes the place of the limits of requests in flight.
	flowControl bool
	// admissionPlugins are enabled in addition to NamespaceLifecycle.
	admissionPlugins []string
	// encryption is the file with the encryption configuration.
	encryption string
}

func (o options) aggregates() bool { return o.aggregation.enabled() }

func (o options) controlsFlow() bool { return o.flowControl }

func (o options) callsValidatingWebhooks() bool {
	return slices.Contains(o.admissionPlugins, validating.PluginName)
}

// server is the chain of API servers behind one listener.
type server struct {
	url      string
	ca       []byte
	run      func(context.Context) error
	loopback kubernetes.Interface
}

func newServer(ctx context.Context, folder, etcdURL string, options options) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().(*net.TCPAddr)
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{address.IP}, nil)
	if err != nil {
		return nil, err
	}
	certificateFile, keyFile := filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
	if err := certutil.WriteCert(certificateFile, certificate); err != nil {
		return nil, err
	}
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return nil, err
	}

	recommended := genericoptions.NewRecommendedOptions("/registry", internalCodec{codecs.LegacyCodec(storageVersions...)})
	recommended.Etcd.StorageConfig.Transport.ServerList = []string{etcdURL}
	recommended.Etcd.EnableWatchCache = options.watchCache
	recommended.Etcd.EncryptionProviderConfigFilepath = options.encryption
	recommended.Audit = options.audit
	recommended.SecureServing.Listener = listener
	recommended.SecureServing.BindAddress = address.IP
	recommended.SecureServing.BindPort = address.Port
	recommended.SecureServing.ServerCert.CertKey.CertFile = certificateFile
	recommended.SecureServing.ServerCert.CertKey.KeyFile = keyFile
	// These delegate to another API server. This one decides for itself, below.
	recommended.Authentication, recommended.Authorization, recommended.CoreAPI = nil, nil, nil
	// These need clients of this server, which are made below.
	recommended.Admission = nil
	recommended.Features.EnablePriorityAndFairness = false

	config := genericapiserver.NewRecommendedConfig(codecs)
	if err := genericoptions.NewServerRunOptions().ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	if err := recommended.ApplyTo(config); err != nil {
		return nil, err
	}
	config.Authentication.Authenticator = bearertoken.New(tokens())
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	config.MergedResourceConfig = apiextensions.DefaultAPIResourceConfigSource()
	config.ClientConfig = config.LoopbackClientConfig
	loopback, err := kubernetes.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	dynamicLoopback, err := dynamic.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	config.SharedInformerFactory = informers.NewSharedInformerFactory(loopback, 10*time.Minute)
	admission := genericoptions.NewAdmissionOptions()
	admission.DefaultOffPlugins = sets.New(admission.RecommendedPluginOrder...).Delete(lifecycle.PluginName)
	admission.EnablePlugins = options.admissionPlugins
	err = admission.ApplyTo(&config.Config, config.SharedInformerFactory, loopback, dynamicLoopback,
		config.FeatureGate, config.EffectiveVersion)
	if err != nil {
		return nil, err
	}

	if options.flowControl {
		applyFlowControl(config, loopback)
	}
	aggregates := options.aggregates()
	if aggregates || options.audit.PolicyFile != "" {
		likeKubeAPIServer(&config.Config)
	}
	if aggregates {
		if err := options.aggregation.apply(config); err != nil {
			return nil, err
		}
	}
	// All servers of the chain tell of their groups in one place.
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager(genericapiserver.APIGroupPrefix[1:])
	extensions, err := newExtensionsServer(*config, *recommended.Etcd)
	if err != nil {
		return nil, err
	}
	generic, err := config.Complete().New("apiserver", extensions.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	if err := installBuiltIn(generic, config, options); err != nil {
		return nil, err
	}
	err = generic.AddPostStartHook("create-namespaces", func(hook genericapiserver.PostStartHookContext) error {
		return createNamespaces(hook, loopback)
	})
	if err != nil {
		return nil, err
	}
	if options.flowControl {
		err = generic.AddPostStartHook("create-flow-control-objects", func(hook genericapiserver.PostStartHookContext) error {
			return createFlowControlObjects(hook, loopback)
		})
		if err != nil {
			return nil, err
		}
	}
	created := &server{url: "https://" + listener.Addr().String(), ca: certificate, loopback: loopback}
	if !aggregates {
		created.run = generic.PrepareRun().RunWithContext
		return created, nil
	}
	err = generic.AddPostStartHook("publish-request-headers", func(hook genericapiserver.PostStartHookContext) error {
		return publishRequestHeaders(hook, loopback, &options.aggregation.requestHeader)
	})
	if err != nil {
		return nil, err
	}
	definitions := extensions.Informers.Apiextensions().V1().CustomResourceDefinitions()
	aggregator, err := newAggregator(*config, *recommended.Etcd, &options.aggregation, created.url, generic, definitions)
	if err != nil {
		return nil, err
	}
	created.run, err = runAggregator(aggregator)
	return created, err
}

// likeKubeAPIServer makes changes that aggregated servers and audit events show.
func likeKubeAPIServer(config *genericapiserver.Config) {
	config.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	config.Authentication.Authenticator = group.NewAuthenticatedGroupAdder(config.Authentication.Authenticator)
}

// newExtensionsServer makes the server of definitions and custom resources, which answers what the server of built-in
// kinds does not know.
func newExtensionsServer(config genericapiserver.RecommendedConfig, etcd genericoptions.EtcdOptions) (*apiextensions.CustomResourceDefinitions, error) {
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	config.RESTOptionsGetter = nil
	etcd.StorageConfig.Codec = apiextensions.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion,
		schema.GroupKind{Group: apiextensionsv1beta1.GroupName})
	etcd.SkipHealthEndpoints = true
	if err := etcd.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(
		openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(apiextensionsopenapi.GetOpenAPIDefinitions),
		openapinamer.NewDefinitionNamer(apiextensions.Scheme, clientscheme.Scheme))
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(
		openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(apiextensionsopenapi.GetOpenAPIDefinitions),
		openapinamer.NewDefinitionNamer(apiextensions.Scheme, clientscheme.Scheme))
	extensions := &apiextensions.Config{
		GenericConfig: &config,
		ExtraConfig: apiextensions.ExtraConfig{
			CRDRESTOptionsGetter: apiextensionsoptions.NewCRDRESTOptionsGetter(etcd, config.ResourceTransformers, config.StorageObjectCountTracker),
			MasterCount:          1,
			ServiceResolver:      webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, nooptrace.NewTracerProvider()),
		},
	}
	notFound := notfoundhandler.New(codecs, endpointfilters.NoMuxAndDiscoveryIncompleteKey)
	return extensions.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
}

func tokens() authenticator.Token {
	return tokenfile.New(map[string]*user.DefaultInfo{
		adminToken: {Name: "admin", UID: "1", Groups: []string{user.SystemPrivilegedGroup}},
	})
}

func (s *server) waitUntilReady(ctx context.Context, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		var status int
		s.loopback.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		switch {
		case status == http.StatusOK:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("the server is not ready after %s", timeout)
		}
	}
}

func (s *server) writeKubeconfig(folder string) (string, error) {
	file := filepath.Join(folder, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["go"] = &clientcmdapi.Cluster{Server: s.url, CertificateAuthorityData: s.ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: adminToken}
	config.Contexts["go"] = &clientcmdapi.Context{Cluster: "go", AuthInfo: "admin"}
	config.CurrentContext = "go"
	return file, clientcmd.WriteToFile(*config, file)
}
