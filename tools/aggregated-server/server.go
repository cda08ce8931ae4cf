package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
)

// newOptions returns upstream's options of an aggregated server. Of the admission plugins only NamespaceLifecycle and
// BanFlunder are on by default; webhooks and policies make the server watch their configurations on the main server.
func newOptions(plugin *banFlunder) *genericoptions.RecommendedOptions {
	options := genericoptions.NewRecommendedOptions("/registry/"+groupName, codecs.LegacyCodec(v1))
	options.Features.EnablePriorityAndFairness = false
	admissions := options.Admission
	admissions.Plugins.Register(banFlunderName, func(io.Reader) (admission.Interface, error) { return plugin, nil })
	admissions.DefaultOffPlugins = sets.New(admissions.RecommendedPluginOrder...).Delete(lifecycle.PluginName)
	admissions.RecommendedPluginOrder = append(admissions.RecommendedPluginOrder, banFlunderName)
	return options
}

// useCertificate gives the server the certificate of the flags, or makes one and writes its authority to the file writeCA.
func useCertificate(serving *genericoptions.SecureServingOptionsWithLoopback, folder, writeCA string, names []string) error {
	pair := &serving.ServerCert.CertKey
	if pair.CertFile == "" {
		certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, names)
		if err != nil {
			return err
		}
		pair.CertFile, pair.KeyFile = filepath.Join(folder, "server.crt"), filepath.Join(folder, "server.key")
		if err := os.WriteFile(pair.CertFile, certificate, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(pair.KeyFile, key, 0o600); err != nil {
			return err
		}
	}
	if writeCA == "" {
		return nil
	}
	certificate, err := os.ReadFile(pair.CertFile)
	if err != nil {
		return err
	}
	return os.WriteFile(writeCA, certificate, 0o644)
}

// newServer makes the server of the group wardle.example.com.
func newServer(options *genericoptions.RecommendedOptions, plugin *banFlunder) (*genericapiserver.GenericAPIServer, error) {
	config := genericapiserver.NewRecommendedConfig(codecs)
	if err := genericoptions.NewServerRunOptions().ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	useOpenAPI(&config.Config)
	if err := options.ApplyTo(config); err != nil {
		return nil, err
	}
	config.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString("log", "exec"))
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return recordRequest(genericapiserver.DefaultBuildHandlerChain(handler, c))
	}
	server, err := config.Complete().New("aggregated-server", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	// Watches and logs that are open at the end are not waited for.
	server.ShutdownTimeout = time.Second

	storages, err := newStorages(config.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	plugin.fischers = storages.fischers
	group := genericapiserver.NewDefaultAPIGroupInfo(groupName, scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[v1.Version] = storages.resources()
	group.VersionedResourcesStorageMap[v1beta1.Version] = storages.resources()
	return server, server.InstallAPIGroup(&group)
}

// waitUntilReady waits until the server answers /readyz with 200, asked through its own loopback client.
func waitUntilReady(ctx context.Context, server *genericapiserver.GenericAPIServer, timeout time.Duration) error {
	client, err := kubernetes.NewForConfig(server.LoopbackClientConfig)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		var status int
		result := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		switch {
		case status == http.StatusOK:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("the server is not ready after %s: %w", timeout, result.Error())
		}
	}
}
