package main

import (
	"context"
	"fmt"
	"slices"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
)

const banFlunderName = "BanFlunder"

// banFlunder is an admission plugin that forbids Flunders whose name is in a Fischer's disallowedFlunders.
type banFlunder struct {
	*admission.Handler
	// fischers is set before the server starts.
	fischers rest.Lister
}

func newBanFlunder() *banFlunder {
	return &banFlunder{Handler: admission.NewHandler(admission.Create)}
}

// Validate reads the Fischers from the store, so a Fischer has an effect as soon as it is created.
func (b *banFlunder) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetKind().GroupKind() != v1.WithKind("Flunder").GroupKind() || attributes.GetSubresource() != "" {
		return nil
	}
	found, err := b.fischers.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	for _, fischer := range found.(*fischerList).Items {
		if slices.Contains(fischer.DisallowedFlunders, attributes.GetName()) {
			return admission.NewForbidden(attributes, fmt.Errorf("the Fischer %q disallows this name", fischer.Name))
		}
	}
	return nil
}
