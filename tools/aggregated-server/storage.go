package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy has the rules that both kinds share.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
}

func (s strategy) NamespaceScoped() bool                                 { return s.namespaced }
func (strategy) AllowCreateOnUpdate() bool                               { return false }
func (strategy) AllowUnconditionalUpdate() bool                          { return true }
func (strategy) Canonicalize(runtime.Object)                             {}
func (strategy) PrepareForCreate(context.Context, runtime.Object)        {}
func (strategy) PrepareForUpdate(_ context.Context, _, _ runtime.Object) {}
func (strategy) Validate(context.Context, runtime.Object) field.ErrorList {
	return nil
}
func (strategy) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList {
	return nil
}
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string {
	return nil
}

// flunderStrategy keeps the status out of writes of the object, counts generations and validates the size.
type flunderStrategy struct{ strategy }

func (flunderStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	created := object.(*flunder)
	created.Generation = 1
	created.Status = FlunderStatus{Phase: "Pending"}
}

func (flunderStrategy) PrepareForUpdate(_ context.Context, updated, old runtime.Object) {
	after, before := updated.(*flunder), old.(*flunder)
	after.Status = before.Status
	after.Generation = before.Generation
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		after.Generation++
	}
}

func (flunderStrategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	return validateFlunder(object.(*flunder))
}

func (flunderStrategy) ValidateUpdate(_ context.Context, updated, _ runtime.Object) field.ErrorList {
	return validateFlunder(updated.(*flunder))
}

func (flunderStrategy) WarningsOnCreate(_ context.Context, object runtime.Object) []string {
	if object.(*flunder).Spec.Reference == object.(*flunder).Name && object.(*flunder).Name != "" {
		return []string{"spec.reference: the Flunder refers to itself"}
	}
	return nil
}

func (flunderStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// flunderStatusStrategy changes the status alone.
type flunderStatusStrategy struct{ strategy }

func (flunderStatusStrategy) PrepareForUpdate(_ context.Context, updated, old runtime.Object) {
	after, before := updated.(*flunder), old.(*flunder)
	after.Spec, after.Labels, after.Generation = before.Spec, before.Labels, before.Generation
}

func (flunderStatusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("spec")
}

// resetFields tells the field manager that a strategy overwrites a field, which has the same name in all versions.
func resetFields(name string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie(name))
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1.String()): set, fieldpath.APIVersion(v1beta1.String()): set,
	}
}

func validateFlunder(object *flunder) field.ErrorList {
	if object.Spec.Size < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "size"), object.Spec.Size, validation.IsNegativeErrorMsg)}
	}
	return nil
}

// newStore makes the store of a kind in the group's folder of etcd.
func newStore(getter generic.RESTOptionsGetter, singular string, newObject, newList func() runtime.Object,
	rules rest.RESTCreateUpdateStrategy, table tableConvertor) (*genericregistry.Store, error) {
	store := &genericregistry.Store{
		NewFunc:                   newObject,
		NewListFunc:               newList,
		DefaultQualifiedResource:  v1.WithResource(singular + "s").GroupResource(),
		SingularQualifiedResource: v1.WithResource(singular).GroupResource(),
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes}
		},
		CreateStrategy: rules,
		UpdateStrategy: rules,
		DeleteStrategy: rules.(rest.RESTDeleteStrategy),
		TableConvertor: table,
	}
	if resets, ok := rules.(rest.ResetFieldsStrategy); ok {
		store.ResetFieldsStrategy = resets
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: attributes})
}

// attributes are the labels and fields by which clients select objects.
func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	selectable := fields.Set{"metadata.name": accessor.GetName()}
	if namespace := accessor.GetNamespace(); namespace != "" {
		selectable["metadata.namespace"] = namespace
	}
	return accessor.GetLabels(), selectable, nil
}

// tableConvertor makes tables with columns between the name and the age.
type tableConvertor struct {
	columns []metav1.TableColumnDefinition
	cells   func(runtime.Object) []any
}

var flunderTable = tableConvertor{
	[]metav1.TableColumnDefinition{
		{Name: "Reference", Type: "string", Description: "The name of another Flunder."},
		{Name: "Size", Type: "integer", Format: "int32", Description: "The size of the Flunder."},
		{Name: "Phase", Type: "string", Priority: 1, Description: "The phase of the Flunder."},
	},
	func(object runtime.Object) []any {
		shown := object.(*flunder)
		return []any{shown.Spec.Reference, shown.Spec.Size, shown.Status.Phase}
	},
}

var fischerTable = tableConvertor{
	[]metav1.TableColumnDefinition{{Name: "Disallowed", Type: "string", Description: "The names that no Flunder may have."}},
	func(object runtime.Object) []any {
		return []any{strings.Join(object.(*fischer).DisallowedFlunders, ",")}
	},
}

func (t tableConvertor) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if options, ok := options.(*metav1.TableOptions); !ok || !options.NoHeaders {
		name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "The name of the object."}
		age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: "The time since the creation."}
		table.ColumnDefinitions = append(append([]metav1.TableColumnDefinition{name}, t.columns...), age)
	}
	if list, err := meta.ListAccessor(object); err == nil {
		table.ResourceVersion, table.Continue = list.GetResourceVersion(), list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if common, err := meta.CommonAccessor(object); err == nil {
		table.ResourceVersion = common.GetResourceVersion()
	}
	var err error
	table.Rows, err = metatable.MetaToTableRow(object, func(item runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		return append(append([]any{name}, t.cells(item)...), age), nil
	})
	return table, err
}

// storages are the stores of the group, the same ones for both versions.
type storages struct {
	flunders, flunderStatus, fischers *genericregistry.Store
}

func newStorages(getter generic.RESTOptionsGetter) (storages, error) {
	shared := strategy{scheme, names.SimpleNameGenerator, true}
	flunders, err := newStore(getter, "flunder",
		func() runtime.Object { return &flunder{} }, func() runtime.Object { return &flunderList{} },
		flunderStrategy{shared}, flunderTable)
	if err != nil {
		return storages{}, fmt.Errorf("flunders: %w", err)
	}
	status := *flunders
	status.UpdateStrategy, status.ResetFieldsStrategy = flunderStatusStrategy{shared}, flunderStatusStrategy{shared}
	shared.namespaced = false
	fischers, err := newStore(getter, "fischer",
		func() runtime.Object { return &fischer{} }, func() runtime.Object { return &fischerList{} },
		shared, fischerTable)
	if err != nil {
		return storages{}, fmt.Errorf("fischers: %w", err)
	}
	return storages{flunders, &status, fischers}, nil
}

// resources returns the storage of each resource and subresource.
func (s storages) resources() map[string]rest.Storage {
	return map[string]rest.Storage{
		"flunders":         flunderStorage{s.flunders},
		"flunders/status":  statusStorage{s.flunderStatus},
		"flunders/log":     logConnecter(s.flunders),
		"flunders/exec":    execConnecter(s.flunders),
		"flunders/request": requestConnecter(s.flunders),
		"fischers":         s.fischers,
	}
}

// flunderStorage gives flunders a short name and a category.
type flunderStorage struct{ *genericregistry.Store }

func (flunderStorage) ShortNames() []string { return []string{"fl"} }
func (flunderStorage) Categories() []string { return []string{"all"} }

// statusStorage is the subresource "status": get, update and patch.
type statusStorage struct{ store *genericregistry.Store }

func (s statusStorage) New() runtime.Object { return s.store.New() }

func (statusStorage) Destroy() {}

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
