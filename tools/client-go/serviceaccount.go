package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// actAsServiceAccount requests a token that is bound to a pod, and uses it as a program in that pod does: from a mounted
// file, with the certificate authority beside it (rest.InClusterConfig).
func actAsServiceAccount(ctx context.Context, c clients) error {
	accounts := c.typed.CoreV1().ServiceAccounts(c.namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "robot",
			Containers:         []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	pod, err := c.typed.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the pod: %w", err)
	}
	seconds := int64(600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		},
	}}
	issued, err := accounts.CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	mounted, err := os.MkdirTemp("", "serviceaccount")
	if err != nil {
		return err
	}
	defer os.RemoveAll(mounted)
	tokenFile, caFile := filepath.Join(mounted, "token"), filepath.Join(mounted, "ca.crt")
	if err := os.WriteFile(tokenFile, []byte(issued.Status.Token), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(caFile, c.config.CAData, 0o600); err != nil {
		return err
	}
	inPod, err := kubernetes.NewForConfig(&rest.Config{
		Host:            c.config.Host,
		TLSClientConfig: rest.TLSClientConfig{CAFile: caFile},
		BearerTokenFile: tokenFile,
	})
	if err != nil {
		return err
	}
	reviews := inPod.AuthenticationV1()
	self, err := reviews.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review oneself: %w", err)
	}
	user := self.Status.UserInfo
	if err := expect("user", user.Username, "system:serviceaccount:"+c.namespace+":robot"); err != nil {
		return err
	}
	names := user.Extra["authentication.kubernetes.io/pod-name"]
	if len(names) != 1 || names[0] != pod.Name {
		return fmt.Errorf("extra attributes: %v", user.Extra)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{
		Token: issued.Status.Token, Audiences: []string{"elsewhere"},
	}}
	reviewed, err := c.typed.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review: %w", err)
	}
	if reviewed.Status.Authenticated || reviewed.Status.Error == "" {
		return fmt.Errorf("review for another audience: %+v", reviewed.Status)
	}
	return nil
}
