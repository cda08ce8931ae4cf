// Package teams is a controller: the label "team" of a namespace gives a group of users a role there.
package teams

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// Label names the team that owns a namespace. The team is a group of users.
	Label = "example.org/team"
	// RoleName is the name of the cluster role that members of a team have in its namespaces.
	RoleName = "team-member"
	// BindingName is the name of the role binding in each namespace with the label.
	BindingName = "team"
)

// Reconciler keeps one role binding in each namespace with the label.
type Reconciler struct {
	client.Client
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&corev1.Namespace{}).Owns(&rbacv1.RoleBinding{}).Complete(r)
}

// Reconcile makes the role binding of a namespace correct.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := r.Get(ctx, request.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: BindingName}}
	team, labelled := namespace.Labels[Label]
	if !labelled {
		err := r.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		if err != nil || !metav1.IsControlledBy(binding, namespace) {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, binding))
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, binding, func() error {
		binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: team}}
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RoleName}
		return controllerutil.SetControllerReference(namespace, binding, r.Scheme())
	})
	return ctrl.Result{}, err
}
