package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// step is a part of the life of sites.
type step struct {
	name string
	run  func(context.Context, client.Client, *operator) error
}

var steps = []step{
	{"a site gets what it needs", func(ctx context.Context, c client.Client, o *operator) error {
		return settle(ctx, c, o, "first", 1)
	}},
	{"what a site owns comes again", comesAgain},
	{"a change reaches what a site owns", changes},
	{"background", func(ctx context.Context, c client.Client, o *operator) error {
		return deletes(ctx, c, o, "first", metav1.DeletePropagationBackground)
	}},
	{"foreground", func(ctx context.Context, c client.Client, o *operator) error {
		if err := settle(ctx, c, o, "second", 1); err != nil {
			return err
		}
		return deletes(ctx, c, o, "second", metav1.DeletePropagationForeground)
	}},
	{"orphan", orphans},
	{"a finalizer that takes its time", takesTime},
	{"many at once", many},
}

// settle makes a site, and waits until the operator is done with it.
func settle(ctx context.Context, c client.Client, o *operator, name string, replicas int64) error {
	site := freshSite(name)
	// One is the default.
	if replicas != 1 {
		site.Object["spec"] = map[string]any{"replicas": replicas}
	}
	if err := c.Create(ctx, site); err != nil {
		return err
	}
	return ready(ctx, c, o, name, replicas)
}

// ready waits until a site has all that it needs.
func ready(ctx context.Context, c client.Client, o *operator, name string, replicas int64) error {
	return soon(ctx, func(ctx context.Context) (bool, error) {
		site, deployment := newSite(name), deploymentOf(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
			return false, err
		}
		if gone, err := isGone(ctx, c, deployment); gone || err != nil {
			return false, err
		}
		found, _, err := unstructured.NestedInt64(site.Object, "status", "replicas")
		owned := metav1.IsControlledBy(deployment, site)
		has := o.has(name) && controllerutil.ContainsFinalizer(site, finalizer)
		return owned && has && found == replicas && int64(*deployment.Spec.Replicas) == replicas, err
	})
}

// comesAgain deletes what a site owns: whoever owns it hears of that.
func comesAgain(ctx context.Context, c client.Client, o *operator) error {
	before := deploymentOf("first")
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
		return err
	}
	if err := c.Delete(ctx, deploymentOf("first")); err != nil {
		return err
	}
	return soon(ctx, func(ctx context.Context) (bool, error) {
		after := deploymentOf("first")
		gone, err := isGone(ctx, c, after)
		return !gone && after.UID != before.UID, err
	})
}

func changes(ctx context.Context, c client.Client, o *operator) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"replicas": 3}}`))
	if err := c.Patch(ctx, newSite("first"), patch); err != nil {
		return err
	}
	return ready(ctx, c, o, "first", 3)
}

// deletes deletes a site: it goes with what is outside and with what it owns.
func deletes(ctx context.Context, c client.Client, o *operator, name string, policy metav1.DeletionPropagation) error {
	before := deploymentOf(name)
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite(name), client.PropagationPolicy(policy)); err != nil {
		return err
	}
	return soon(ctx, func(ctx context.Context) (bool, error) {
		site, err := isGone(ctx, c, newSite(name))
		if !site || err != nil {
			return false, err
		}
		if o.has(name) {
			return false, errors.New("the site has gone before what is outside")
		}
		// An operator that has not heard yet of the end of a site may make another one, which goes as well.
		deployment := deploymentOf(name)
		gone, err := isGone(ctx, c, deployment)
		if policy == metav1.DeletePropagationForeground && err == nil && deployment.UID == before.UID {
			return false, errors.New("the site has gone before what it owns")
		}
		return gone, err
	})
}

func orphans(ctx context.Context, c client.Client, o *operator) error {
	if err := settle(ctx, c, o, "third", 2); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite("third"), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return err
	}
	err := soon(ctx, func(ctx context.Context) (bool, error) { return isGone(ctx, c, newSite("third")) })
	if err != nil {
		return err
	}
	deployment := deploymentOf("third")
	if err := c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	if len(deployment.OwnerReferences) > 0 {
		return fmt.Errorf("it still has owners: %v", deployment.OwnerReferences)
	}
	// Whoever makes the site again adopts it.
	if err := settle(ctx, c, o, "third", 2); err != nil {
		return err
	}
	return deletes(ctx, c, o, "third", metav1.DeletePropagationBackground)
}

// takesTime holds a site back: it is there, with its mark, until the operator lets it go.
func takesTime(ctx context.Context, c client.Client, o *operator) error {
	site := freshSite("fourth")
	site.SetLabels(map[string]string{"hold": "yes"})
	if err := c.Create(ctx, site); err != nil {
		return err
	}
	if err := ready(ctx, c, o, "fourth", 1); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite("fourth")); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
		return err
	}
	if site.GetDeletionTimestamp().IsZero() || !o.has("fourth") {
		return errors.New("it is not held")
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(deploymentOf("fourth")), deploymentOf("fourth")); err != nil {
		return fmt.Errorf("what it owns has gone before it: %w", err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": null}}`))
	if err := c.Patch(ctx, newSite("fourth"), patch); err != nil {
		return err
	}
	return soon(ctx, func(ctx context.Context) (bool, error) {
		site, err := isGone(ctx, c, newSite("fourth"))
		if !site || err != nil {
			return false, err
		}
		return isGone(ctx, c, deploymentOf("fourth"))
	})
}

// many makes sites and deletes them all with one request.
func many(ctx context.Context, c client.Client, o *operator) error {
	const count = 50
	for i := range count {
		if err := c.Create(ctx, freshSite(fmt.Sprintf("many-%02d", i))); err != nil {
			return err
		}
	}
	for i := range count {
		if err := ready(ctx, c, o, fmt.Sprintf("many-%02d", i), 1); err != nil {
			return err
		}
	}
	if err := c.DeleteAllOf(ctx, newSite(""), client.InNamespace("default")); err != nil {
		return err
	}
	for i := range count {
		name := fmt.Sprintf("many-%02d", i)
		err := soon(ctx, func(ctx context.Context) (bool, error) {
			site, err := isGone(ctx, c, newSite(name))
			if !site || err != nil {
				return false, err
			}
			return isGone(ctx, c, deploymentOf(name))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
