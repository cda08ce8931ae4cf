package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// definitionPriority is the priority of the group versions of definitions, which come after all built-in groups.
var definitionPriority = priority{1000, 100}

// definitionRegistration keeps an APIService for each served version of a CustomResourceDefinition. kube-apiserver does
// the same with a controller that no public library has.
type definitionRegistration struct {
	definitions  apiextensionsinformers.CustomResourceDefinitionInformer
	registration autoregister.AutoAPIServiceRegistration
	// changed has the group versions of definitions that have changed.
	changed chan schema.GroupVersion
	// synced is closed when all definitions of the start are registered.
	synced chan struct{}
}

func newDefinitionRegistration(definitions apiextensionsinformers.CustomResourceDefinitionInformer,
	registration autoregister.AutoAPIServiceRegistration) *definitionRegistration {
	r := &definitionRegistration{definitions, registration, make(chan schema.GroupVersion, 1000), make(chan struct{})}
	definitions.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.enqueue,
		UpdateFunc: func(old, updated any) {
			r.enqueue(old)
			r.enqueue(updated)
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			r.enqueue(object)
		},
	})
	return r
}

func (r *definitionRegistration) enqueue(object any) {
	for _, version := range versions(object) {
		r.changed <- version
	}
}

func versions(object any) []schema.GroupVersion {
	definition, ok := object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	var found []schema.GroupVersion
	for _, version := range definition.Spec.Versions {
		found = append(found, schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name})
	}
	return found
}

func (r *definitionRegistration) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), r.definitions.Informer().HasSynced) {
		return
	}
	all, _ := r.definitions.Lister().List(labels.Everything())
	for _, definition := range all {
		for _, version := range versions(definition) {
			r.register(version)
		}
	}
	close(r.synced)
	for {
		select {
		case version := <-r.changed:
			r.register(version)
		case <-ctx.Done():
			return
		}
	}
}

// register adds the APIService of a group version if a definition serves it, and removes it otherwise.
func (r *definitionRegistration) register(version schema.GroupVersion) {
	service := localService(version, definitionPriority)
	all, _ := r.definitions.Lister().List(labels.Everything())
	for _, definition := range all {
		for _, candidate := range definition.Spec.Versions {
			if definition.Spec.Group == version.Group && candidate.Name == version.Version && candidate.Served {
				r.registration.AddAPIServiceToSync(service)
				return
			}
		}
	}
	r.registration.RemoveAPIServiceToSync(service.Name)
}

// publishRequestHeaders writes the settings with which aggregated servers recognize this server's proxy.
func publishRequestHeaders(ctx context.Context, client kubernetes.Interface, options *genericoptions.RequestHeaderAuthenticationOptions) error {
	if options.ClientCAFile == "" {
		return nil
	}
	authority, err := os.ReadFile(options.ClientCAFile)
	if err != nil {
		return err
	}
	published := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"},
		Data:       map[string]string{"requestheader-client-ca-file": string(authority)},
	}
	for key, values := range map[string][]string{
		"requestheader-username-headers":     options.UsernameHeaders,
		"requestheader-uid-headers":          options.UIDHeaders,
		"requestheader-group-headers":        options.GroupHeaders,
		"requestheader-extra-headers-prefix": options.ExtraHeaderPrefixes,
		"requestheader-allowed-names":        options.AllowedNames,
	} {
		// A list without values is [], not null.
		text, err := json.Marshal(append([]string{}, values...))
		if err != nil {
			return err
		}
		published.Data[key] = string(text)
	}
	maps := client.CoreV1().ConfigMaps(published.Namespace)
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Create(ctx, published, metav1.CreateOptions{})
		if errors.IsAlreadyExists(err) {
			_, err = maps.Update(ctx, published, metav1.UpdateOptions{})
		}
		// The namespace is created at the same time.
		return err == nil, nil
	})
}
