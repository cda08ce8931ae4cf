package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accountName is the name of the operator's service account, of its roles and of their bindings.
const accountName = "site-operator"

// clusterRules is what the operator may do in all namespaces: what kubebuilder's markers of such an operator say.
var clusterRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"example.com"}, Resources: []string{"sites"}, Verbs: []string{"get", "list", "watch", "update", "patch"}},
	{APIGroups: []string{"example.com"}, Resources: []string{"sites/status", "sites/finalizers"}, Verbs: []string{"get", "update", "patch"}},
	{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
}

// electionRules is what the election of a leader needs in the operator's own namespace.
var electionRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "patch"}},
	{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// operatorConfig creates the operator's service account with its roles, and returns a configuration with a token of it.
// The configuration has nothing of the administrator's.
func operatorConfig(ctx context.Context, c client.Client, administrator *rest.Config) (*rest.Config, error) {
	inDefault := metav1.ObjectMeta{Name: accountName, Namespace: "default"}
	account := &corev1.ServiceAccount{ObjectMeta: inDefault}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: accountName, Namespace: "default"}}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: accountName}
	}
	for _, object := range []client.Object{
		account,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: accountName}, Rules: clusterRules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: accountName}, Subjects: subjects, RoleRef: role("ClusterRole")},
		&rbacv1.Role{ObjectMeta: inDefault, Rules: electionRules},
		&rbacv1.RoleBinding{ObjectMeta: inDefault, Subjects: subjects, RoleRef: role("Role")},
	} {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("%T: %w", object, err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(administrator)
	config.BearerToken = request.Status.Token
	config.QPS, config.Burst = administrator.QPS, administrator.Burst
	return config, checkRefused(ctx, config)
}

// checkRefused checks that the operator may do nothing beyond its roles.
func checkRefused(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	for _, attempt := range []error{
		c.List(ctx, &corev1.SecretList{}),
		c.Create(ctx, newSite("refused")),
		c.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Rules: clusterRules}),
	} {
		if !apierrors.IsForbidden(attempt) {
			return fmt.Errorf("the operator may do more than its roles allow: %v", attempt)
		}
	}
	return nil
}
