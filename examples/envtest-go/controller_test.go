package teams

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the check returns no error.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	must(t, errors.Join(err, last))
}

// start runs kube-apiserver and etcd of KUBEBUILDER_ASSETS, and the manager with the controller.
func start(t *testing.T) (*envtest.Environment, client.Client) {
	ctrl.SetLogger(klog.Background())
	env := &envtest.Environment{}
	config, err := env.Start()
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	must(t, (&Reconciler{Client: manager.GetClient()}).SetupWithManager(manager))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	direct, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	must(t, err)
	return env, direct
}

func TestMembersOfATeamHaveTheirRole(t *testing.T) {
	env, admin := start(t)
	user, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"blue"}}, &rest.Config{})
	must(t, err)
	jane, err := client.New(user.Config(), client.Options{Scheme: scheme.Scheme})
	must(t, err)
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: RoleName},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	must(t, admin.Create(t.Context(), namespace))
	list := func(ctx context.Context) error {
		return jane.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace.Name))
	}
	if err := list(t.Context()); !apierrors.IsForbidden(err) {
		t.Fatalf("jane may list without a role: %v", err)
	}

	// An empty team removes the label.
	label := func(team string) {
		t.Helper()
		patch := client.MergeFrom(namespace.DeepCopy())
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, Label, team)
		if team == "" {
			delete(namespace.Labels, Label)
		}
		must(t, admin.Patch(t.Context(), namespace, patch))
	}
	label("blue")
	eventually(t, list)

	// The controller makes a deleted binding again.
	key := client.ObjectKey{Namespace: namespace.Name, Name: BindingName}
	deleted := &rbacv1.RoleBinding{}
	must(t, admin.Get(t.Context(), key, deleted))
	must(t, admin.Delete(t.Context(), deleted))
	eventually(t, func(ctx context.Context) error {
		binding := &rbacv1.RoleBinding{}
		err := admin.Get(ctx, key, binding)
		if err == nil && binding.UID == deleted.UID {
			err = errors.New("the binding is not deleted")
		}
		return err
	})
	eventually(t, list)

	label("")
	eventually(t, func(ctx context.Context) error {
		err := list(ctx)
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(errors.New("jane may still list"), err)
	})
}
