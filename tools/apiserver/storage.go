package main

import (
	"context"
	"maps"

	"slices"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy has upstream's generic rules and the few of the kind that do not need the kind's validation.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind   kind
	status bool
}

func newStrategy(kind kind, status bool) strategy {
	return strategy{scheme, names.SimpleNameGenerator, kind, status}
}

func (s strategy) NamespaceScoped() bool          { return s.kind.namespaced }
func (s strategy) AllowCreateOnUpdate() bool      { return s.kind.createOnUpdate && !s.status }
func (s strategy) AllowUnconditionalUpdate() bool { return !s.kind.conditional }
func (s strategy) Canonicalize(runtime.Object)    {}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.kind.prepareCreate != nil {
		s.kind.prepareCreate(object)
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, updated, old runtime.Object) {
	prepare := s.kind.prepareUpdate
	if s.status {
		prepare = s.kind.prepareStatus
	}
	if prepare != nil {
		prepare(updated, old)
	}
	// Objects of internal types have no kind and apiVersion. A patch that changes nothing must leave an equal object.
	updated.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
}

// independentStrategy is the strategy of a kind whose objects have no dependents.
type independentStrategy struct{ strategy }

func (independentStrategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.Unsupported
}

// gracefulStrategy is the strategy of a kind whose objects may take time to end.
type gracefulStrategy struct{ strategy }

func (s gracefulStrategy) CheckGracefulDelete(_ context.Context, object runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	period := s.kind.gracePeriod(object)
	if options.GracePeriodSeconds != nil && period != 0 {
		period = *options.GracePeriodSeconds
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}

// Validate checks the metadata, as the strategy of every kind does.
func (s strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateObjectMetaAccessor(metadata, s.kind.namespaced, s.kind.validateName(), field.NewPath("metadata"))
}

func (s strategy) ValidateUpdate(_ context.Context, updated, old runtime.Object) field.ErrorList {
	metadata, err := meta.Accessor(updated)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	before, err := meta.Accessor(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateObjectMetaAccessorUpdate(metadata, before, field.NewPath("metadata"))
}

// validateName returns the rule for names of the kind.
func (k kind) validateName() validation.ValidateNameFunc {
	if k.namespaced {
		return validation.NameIsDNSSubdomain
	}
	return validation.ValidateNamespaceName
}

func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (s strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields tells the field manager which fields this strategy overwrites.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	resets := s.kind.resets
	if s.status {
		resets = s.kind.statusResets
	}
	set := fieldpath.NewSet()
	for _, reset := range resets {
		var parts []any
		for _, part := range strings.Split(reset, ".") {
			parts = append(parts, part)
		}
		set.Insert(fieldpath.MakePathOrDie(parts...))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.groupVersion.String()): set}
}

func (k kind) attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{"metadata.name": accessor.GetName()}
	if k.namespaced {
		selectable["metadata.namespace"] = accessor.GetNamespace()
	}
	if k.selectable != nil {
		maps.Copy(selectable, k.selectable(object))
	}
	return accessor.GetLabels(), selectable, nil
}

func (k kind) newStore(getter generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	resource := schema.GroupResource{Group: k.groupVersion.Group, Resource: k.resource}
	strategy := newStrategy(k, false)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return k.object.DeepCopyObject() },
		NewListFunc:               func() runtime.Object { return k.list.DeepCopyObject() },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: k.singular},
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: k.attributes}
		},
		CreateStrategy:      strategy,
		UpdateStrategy:      strategy,
		DeleteStrategy:      strategy,
		ResetFieldsStrategy: strategy,
		ReturnDeletedObject: k.returnsDeleted,
		TableConvertor:      rest.NewDefaultTableConvertor(resource),
	}
	if k.gracePeriod != nil {
		store.DeleteStrategy = gracefulStrategy{strategy}
	}
	if k.keepsDependents {
		store.DeleteStrategy = independentStrategy{strategy}
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: withoutGroup{getter}, AttrFunc: k.attributes})
}

// withoutGroup gives built-in kinds the keys that kube-apiserver gives them, which do not have the group.
type withoutGroup struct {
	generic.RESTOptionsGetter
}

func (w withoutGroup) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := w.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.ResourcePrefix = resource.Resource
	return options, err
}

// namedStorage is the storage of a kind with its other names.
type namedStorage struct {
	*genericregistry.Store
	kind kind
}

func (s namedStorage) ShortNames() []string { return s.kind.shortNames }

func (s namedStorage) Categories() []string { return s.kind.categories }

// statusStorage is the subresource for the status of a kind.
type statusStorage struct {
	store *genericregistry.Store
}

func (s statusStorage) New() runtime.Object { return s.store.New() }

func (s statusStorage) Destroy() {}

func (s statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

func (s statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, createValidation, updateValidation, false, options)
}

func (s statusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

func (s statusStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}

// installBuiltIn serves the built-in kinds. It takes the place of InstallAPIGroup, which derives the types for
// server-side apply from an OpenAPI document that no public library has for these kinds; client-go has the types.
func installBuiltIn(server *genericapiserver.GenericAPIServer, config *genericapiserver.RecommendedConfig, options options) error {
	storages := map[schema.GroupVersion]map[string]rest.Storage{}
	for _, kind := range kinds {
		if kind.neededBy != nil && !kind.neededBy(options) {
			continue
		}
		store, err := kind.newStore(config.RESTOptionsGetter)
		if err != nil {
			return err
		}
		if storages[kind.groupVersion] == nil {
			storages[kind.groupVersion] = map[string]rest.Storage{}
		}
		storages[kind.groupVersion][kind.resource] = namedStorage{store, kind}
		if kind.prepareStatus != nil {
			statusStore := *store
			statusStore.UpdateStrategy, statusStore.ResetFieldsStrategy = newStrategy(kind, true), newStrategy(kind, true)
			storages[kind.groupVersion][kind.resource+"/status"] = statusStorage{&statusStore}
		}
		server.RegisterDestroyFunc(store.Destroy)
	}
	negotiated := servedCodecs()
	for _, version := range slices.SortedFunc(maps.Keys(storages), func(a, b schema.GroupVersion) int {
		return strings.Compare(a.String(), b.String())
	}) {
		if err := install(server, config, negotiated, version, storages[version]); err != nil {
			return err
		}
	}
	return nil
}

func install(server *genericapiserver.GenericAPIServer, config *genericapiserver.RecommendedConfig,
	negotiated serializer.CodecFactory, version schema.GroupVersion, storages map[string]rest.Storage) error {
	root := genericapiserver.APIGroupPrefix
	if version.Group == "" {
		root = genericapiserver.DefaultLegacyAPIPrefix
	}
	served := map[string][]string{}
	for resource := range storages {
		served[resource] = []string{version.String()}
	}
	group := &genericapi.APIGroupVersion{
		Root:                        root,
		GroupVersion:                version,
		Storage:                     storages,
		AllServedVersionsByResource: served,
		OptionsExternalVersion:      &schema.GroupVersion{Version: "v1"},
		Serializer:                  negotiated,
		ParameterCodec:              runtime.NewParameterCodec(scheme),
		Typer:                       scheme,
		Creater:                     scheme,
		Convertor:                   scheme,
		ConvertabilityChecker:       scheme,
		UnsafeConvertor:             runtime.UnsafeObjectConvertor(scheme),
		Defaulter:                   scheme,
		Namer:                       runtime.Namer(meta.NewAccessor()),
		TypeConverter:               applyconfigurations.NewTypeConverter(scheme),
		EquivalentResourceRegistry:  server.EquivalentResourceRegistry,
		Authorizer:                  server.Authorizer,
		Admit:                       config.AdmissionControl,
		MinRequestTimeout:           time.Duration(config.MinRequestTimeout) * time.Second,
		MaxRequestBodyBytes:         config.MaxRequestBodyBytes,
	}
	resources, _, err := group.InstallREST(server.Handler.GoRestfulContainer)
	if err != nil {
		return err
	}
	discovered := apidiscoveryv2.APIVersionDiscovery{
		Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: version.Version, Resources: resources,
	}
	if version.Group == "" {
		server.AggregatedLegacyDiscoveryGroupManager.AddGroupVersion(version.Group, discovered)
		addresses := discovery.DefaultAddresses{DefaultAddress: config.ExternalAddress}
		legacy := discovery.NewLegacyRootAPIHandler(addresses, negotiated, root)
		wrapped := aggregated.WrapAggregatedDiscoveryToHandler(legacy,
			server.AggregatedLegacyDiscoveryGroupManager, server.AggregatedLegacyDiscoveryGroupManager)
		server.Handler.GoRestfulContainer.Add(wrapped.GenerateWebService(root, metav1.APIVersions{}))
		return nil
	}
	server.AggregatedDiscoveryGroupManager.AddGroupVersion(version.Group, discovered)
	preferred := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
	found := metav1.APIGroup{Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{preferred}, PreferredVersion: preferred}
	server.DiscoveryGroupManager.AddGroup(found)
	server.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(negotiated, found).WebService())
	return nil
}

// servedCodecs are the codecs of requests and responses, by the feature gates.
func servedCodecs() serializer.CodecFactory {
	var mutators []serializer.CodecFactoryOptionsMutator
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		mutators = append(mutators, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.StreamingCollectionEncodingToJSON) {
		mutators = append(mutators, serializer.WithStreamingCollectionEncodingToJSON())
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.StreamingCollectionEncodingToProtobuf) {
		mutators = append(mutators, serializer.WithStreamingCollectionEncodingToProtobuf())
	}
	return serializer.NewCodecFactory(scheme, mutators...)
}

// internalCodec decodes stored objects without kind and apiVersion, as objects of internal types are.
type internalCodec struct{ runtime.Codec }

func (c internalCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return object, kind, err
}
