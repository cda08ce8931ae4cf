package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The types of wardle.example.com/v1, the storage version.

// Flunder is a namespaced kind with a status.
type Flunder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FlunderSpec   `json:"spec,omitempty"`
	Status FlunderStatus `json:"status,omitempty"`
}

// FlunderSpec is the desired state of a Flunder.
type FlunderSpec struct {
	Reference string `json:"reference,omitempty"`
	Size      int32  `json:"size,omitempty"`
}

// FlunderStatus is the observed state of a Flunder, in both versions.
type FlunderStatus struct {
	Phase string `json:"phase,omitempty"`
}

// FlunderList is a list of Flunders.
type FlunderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Flunder `json:"items"`
}

// Fischer is a kind without namespace that forbids names of Flunders.
type Fischer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DisallowedFlunders []string `json:"disallowedFlunders,omitempty"`
}

// FischerList is a list of Fischers.
type FischerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Fischer `json:"items"`
}

// The types of wardle.example.com/v1beta1.

// BetaFlunder is a Flunder at v1beta1.
type BetaFlunder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BetaFlunderSpec `json:"spec,omitempty"`
	Status FlunderStatus   `json:"status,omitempty"`
}

// BetaFlunderSpec differs from v1 in the name of a field, so that clients can see the conversion.
type BetaFlunderSpec struct {
	Reference string `json:"flunderReference,omitempty"`
	Size      int32  `json:"size,omitempty"`
}

// BetaFlunderList is a list of Flunders at v1beta1.
type BetaFlunderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BetaFlunder `json:"items"`
}

// BetaFischer is a Fischer at v1beta1, with the fields of v1.
type BetaFischer Fischer

// BetaFischerList is a list of Fischers at v1beta1.
type BetaFischerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BetaFischer `json:"items"`
}

// The types of the internal version, which the registry handles. They have the fields of v1.

type flunder Flunder

type flunderList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []flunder
}

type fischer Fischer

type fischerList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []fischer
}

func (f *Flunder) copyInto(out *Flunder) {
	*out = *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

func (f *Fischer) copyInto(out *Fischer) {
	*out = *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.DisallowedFlunders = append([]string(nil), f.DisallowedFlunders...)
}

func (f *BetaFlunder) copyInto(out *BetaFlunder) {
	*out = *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

func (f *flunder) copyInto(out *flunder)         { (*Flunder)(f).copyInto((*Flunder)(out)) }
func (f *fischer) copyInto(out *fischer)         { (*Fischer)(f).copyInto((*Fischer)(out)) }
func (f *BetaFischer) copyInto(out *BetaFischer) { (*Fischer)(f).copyInto((*Fischer)(out)) }

// copier is a pointer to a T that can copy the T.
type copier[T any] interface {
	*T
	copyInto(*T)
}

func deepCopy[T any, P copier[T]](object P) P {
	out := new(T)
	object.copyInto(out)
	return out
}

// deepCopyItems copies the items of a list. A nil slice remains nil, because it is encoded as null.
func deepCopyItems[T any, P copier[T]](items []T) []T {
	if items == nil {
		return nil
	}
	out := make([]T, len(items))
	for i := range items {
		P(&items[i]).copyInto(&out[i])
	}
	return out
}

func (f *Flunder) DeepCopyObject() runtime.Object     { return deepCopy(f) }
func (f *Fischer) DeepCopyObject() runtime.Object     { return deepCopy(f) }
func (f *BetaFlunder) DeepCopyObject() runtime.Object { return deepCopy(f) }
func (f *BetaFischer) DeepCopyObject() runtime.Object { return deepCopy(f) }
func (f *flunder) DeepCopyObject() runtime.Object     { return deepCopy(f) }
func (f *fischer) DeepCopyObject() runtime.Object     { return deepCopy(f) }

func (l *FlunderList) DeepCopyObject() runtime.Object {
	return &FlunderList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}

func (l *FischerList) DeepCopyObject() runtime.Object {
	return &FischerList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}

func (l *BetaFlunderList) DeepCopyObject() runtime.Object {
	return &BetaFlunderList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}

func (l *BetaFischerList) DeepCopyObject() runtime.Object {
	return &BetaFischerList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}

func (l *flunderList) DeepCopyObject() runtime.Object {
	return &flunderList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}

func (l *fischerList) DeepCopyObject() runtime.Object {
	return &fischerList{l.TypeMeta, *l.ListMeta.DeepCopy(), deepCopyItems(l.Items)}
}
