package main

import (
	"context"
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

// finalizer is on every site for which there is something outside.
const finalizer = "example.com/outside"

var siteKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Site"}

// newSite is a site of which only the place is known.
func newSite(name string) *unstructured.Unstructured {
	site := &unstructured.Unstructured{}
	site.SetGroupVersionKind(siteKind)
	site.SetNamespace("default")
	site.SetName(name)
	return site
}

// freshSite is a site that leaves everything to its defaults.
func freshSite(name string) *unstructured.Unstructured {
	site := newSite(name)
	site.Object["spec"] = map[string]any{}
	return site
}

// deploymentOf is what a site owns.
func deploymentOf(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// operator keeps what sites need.
type operator struct {
	client client.Client

	mutex sync.Mutex
	// outside is what there is for sites beside the cluster, by their names.
	outside map[string]bool
}

// register makes the operator hear of sites and of what they own.
func (o *operator) register(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(newSite("")).Owns(&appsv1.Deployment{}).Complete(o)
}

// has says whether there is something outside for a site.
func (o *operator) has(name string) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.outside[name]
}

func (o *operator) set(name string, is bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.outside[name] = is
}

// Reconcile makes what a site needs, or takes away what its finalizer stands for.
func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := newSite(request.Name)
	if err := o.client.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.GetDeletionTimestamp().IsZero() {
		if site.GetLabels()["hold"] == "yes" {
			return ctrl.Result{}, nil
		}
		o.set(request.Name, false)
		if controllerutil.RemoveFinalizer(site, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(o.client.Update(ctx, site))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		return ctrl.Result{}, o.client.Update(ctx, site)
	}
	o.set(request.Name, true)
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
