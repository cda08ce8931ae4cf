package main

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// finalizer is on every site with an external resource.
const finalizer = "example.com/outside"

var (
	siteKind      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}
	sitesResource = schema.GroupResource{Group: "example.com", Resource: "sites"}
)

// newSite returns a site with only its kind, namespace and name.
func newSite(name string) *unstructured.Unstructured {
	site := &unstructured.Unstructured{}
	site.SetGroupVersionKind(siteKind)
	site.SetNamespace("default")
	site.SetName(name)
	return site
}

// newSiteWithSpec returns a site with an empty spec, which relies on defaults.
func newSiteWithSpec(name string) *unstructured.Unstructured {
	site := newSite(name)
	site.Object["spec"] = map[string]any{}
	return site
}

// deploymentOf returns the deployment that a site owns, without its spec.
func deploymentOf(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// operator reconciles sites.
type operator struct {
	client client.Client

	mutex sync.Mutex
	// external contains the names of the sites that have an external resource.
	external map[string]bool
}

// register registers the operator as the controller of sites and of the deployments that they own.
func (o *operator) register(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(newSite("")).Owns(&appsv1.Deployment{}).Complete(o)
}

// hasExternal returns true if a site has an external resource.
func (o *operator) hasExternal(name string) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.external[name]
}

func (o *operator) setExternal(name string, is bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.external[name] = is
}

// Reconcile creates the resources of a site, or deletes its external resource and removes the finalizer.
func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := newSite(request.Name)
	if err := o.client.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.GetDeletionTimestamp().IsZero() {
		if site.GetLabels()["hold"] == "yes" {
			return ctrl.Result{}, nil
		}
		o.setExternal(request.Name, false)
		if controllerutil.RemoveFinalizer(site, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(o.client.Update(ctx, site))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		return ctrl.Result{}, o.client.Update(ctx, site)
	}
	o.setExternal(request.Name, true)
	replicas, _, err := unstructured.NestedInt64(site.Object, "spec", "replicas")
	if err != nil {
		return ctrl.Result{}, err
	}
	deployment := deploymentOf(request.Name)
	_, err = controllerutil.CreateOrUpdate(ctx, o.client, deployment, func() error {
		count := int32(replicas)
		deployment.Spec.Replicas = &count
		labels := map[string]string{"site": request.Name}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "example.com/web"}}
		}
		if err := o.checkNotDeleted(ctx, site); err != nil {
			return err
		}
		return controllerutil.SetControllerReference(site, deployment, o.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := site.DeepCopy()
	if err := unstructured.SetNestedField(site.Object, int64(*deployment.Spec.Replicas), "status", "replicas"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, o.client.Status().Patch(ctx, site, client.MergeFrom(before))
}

// checkNotDeleted reads a site again before its deployment is adopted. If the site has been deleted since it was read, the
// garbage collector may have orphaned the deployment, and would delete it when it is adopted again.
func (o *operator) checkNotDeleted(ctx context.Context, site *unstructured.Unstructured) error {
	now := newSite(site.GetName())
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(site), now); err != nil {
		return err
	}
	if now.GetUID() != site.GetUID() || !now.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("site %s has been deleted", site.GetName())
	}
	return nil
}
