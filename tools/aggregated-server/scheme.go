package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const groupName = "wardle.example.com"

var (
	v1       = schema.GroupVersion{Group: groupName, Version: "v1"}
	v1beta1  = schema.GroupVersion{Group: groupName, Version: "v1beta1"}
	internal = schema.GroupVersion{Group: groupName, Version: runtime.APIVersionInternal}

	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	kinds := []struct {
		version        schema.GroupVersion
		name           string
		object, inList runtime.Object
	}{
		{v1, "Flunder", &Flunder{}, &FlunderList{}},
		{v1, "Fischer", &Fischer{}, &FischerList{}},
		{v1beta1, "Flunder", &BetaFlunder{}, &BetaFlunderList{}},
		{v1beta1, "Fischer", &BetaFischer{}, &BetaFischerList{}},
		{internal, "Flunder", &flunder{}, &flunderList{}},
		{internal, "Fischer", &fischer{}, &fischerList{}},
	}
	for _, kind := range kinds {
		scheme.AddKnownTypeWithName(kind.version.WithKind(kind.name), kind.object)
		scheme.AddKnownTypeWithName(kind.version.WithKind(kind.name+"List"), kind.inList)
	}
	metav1.AddToGroupVersion(scheme, v1)
	metav1.AddToGroupVersion(scheme, v1beta1)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	utilruntime.Must(scheme.SetVersionPriority(v1, v1beta1))
	addConversions()
}

// addConversions registers the conversions between each served version and the internal version. The caller sets the
// kind and apiVersion of the result; objects of the internal version have neither.
func addConversions() {
	convertItems(func(in *Flunder, out *flunder) {
		*out = flunder(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *FlunderList, out *flunderList) ([]Flunder, *[]flunder) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *flunder, out *Flunder) {
		*out = Flunder(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *flunderList, out *FlunderList) ([]flunder, *[]Flunder) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *BetaFlunder, out *flunder) {
		*out = flunder{ObjectMeta: in.ObjectMeta, Spec: FlunderSpec(in.Spec), Status: in.Status}
	}, func(in *BetaFlunderList, out *flunderList) ([]BetaFlunder, *[]flunder) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *flunder, out *BetaFlunder) {
		*out = BetaFlunder{ObjectMeta: in.ObjectMeta, Spec: BetaFlunderSpec(in.Spec), Status: in.Status}
	}, func(in *flunderList, out *BetaFlunderList) ([]flunder, *[]BetaFlunder) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *Fischer, out *fischer) {
		*out = fischer(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *FischerList, out *fischerList) ([]Fischer, *[]fischer) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *fischer, out *Fischer) {
		*out = Fischer(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *fischerList, out *FischerList) ([]fischer, *[]Fischer) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *BetaFischer, out *fischer) {
		*out = fischer(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *BetaFischerList, out *fischerList) ([]BetaFischer, *[]fischer) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
	convertItems(func(in *fischer, out *BetaFischer) {
		*out = BetaFischer(*in)
		out.TypeMeta = metav1.TypeMeta{}
	}, func(in *fischerList, out *BetaFischerList) ([]fischer, *[]BetaFischer) {
		out.ListMeta = in.ListMeta
		return in.Items, &out.Items
	})
}

// convertItems registers the conversion of a kind and of its list. The function list converts a list without its items
// and returns the items of both lists.
func convertItems[In, Out, InList, OutList any](object func(*In, *Out), list func(*InList, *OutList) ([]In, *[]Out)) {
	utilruntime.Must(scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
		object(in.(*In), out.(*Out))
		return nil
	}))
	utilruntime.Must(scheme.AddConversionFunc((*InList)(nil), (*OutList)(nil), func(in, out any, _ conversion.Scope) error {
		items, converted := list(in.(*InList), out.(*OutList))
		// An empty list is encoded as [], which a nil slice is not.
		*converted = make([]Out, len(items))
		for i := range items {
			object(&items[i], &(*converted)[i])
		}
		return nil
	}))
}
