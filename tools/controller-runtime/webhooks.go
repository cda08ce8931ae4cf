package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxReplicas is what the webhook of sites allows.
const maxReplicas = 10

// siteWebhook sets the team of new sites, and refuses sites with too many replicas and the deletion of kept ones.
type siteWebhook struct{}

func (siteWebhook) Default(ctx context.Context, site *unstructured.Unstructured) error {
	labels := site.GetLabels()
	if labels["team"] != "" {
		return nil
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels["team"] = strings.ReplaceAll(request.UserInfo.Username, ":", ".")
	site.SetLabels(labels)
	return nil
}

func checkReplicas(site *unstructured.Unstructured) (admission.Warnings, error) {
	replicas, _, err := unstructured.NestedInt64(site.Object, "spec", "replicas")
	switch {
	case err != nil:
		return nil, err
	case replicas > maxReplicas:
		return nil, fmt.Errorf("a site has at most %d replicas", maxReplicas)
	case replicas == 0:
		return admission.Warnings{"the site has no replicas"}, nil
	}
	return nil, nil
}

func (siteWebhook) ValidateCreate(_ context.Context, site *unstructured.Unstructured) (admission.Warnings, error) {
	return checkReplicas(site)
}

func (siteWebhook) ValidateUpdate(_ context.Context, old, site *unstructured.Unstructured) (admission.Warnings, error) {
	if old.GetName() != site.GetName() {
		return nil, errors.New("the old object is another one")
	}
	return checkReplicas(site)
}

func (siteWebhook) ValidateDelete(_ context.Context, site *unstructured.Unstructured) (admission.Warnings, error) {
	if site.GetLabels()["keep"] == "yes" {
		// The status of the error reaches the client as it is.
		return nil, apierrors.NewConflict(sitesResource, site.GetName(), errors.New("the site is kept"))
	}
	return nil, nil
}

// deploymentWebhook counts the typed objects that it gets, and annotates them.
type deploymentWebhook struct{ seen atomic.Int64 }

func (d *deploymentWebhook) Default(_ context.Context, deployment *appsv1.Deployment) error {
	d.seen.Add(1)
	metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, "example.com/seen", "yes")
	return nil
}

// checkWebhooks serves the webhooks, registers them, and checks what they do to sites and deployments.
func checkWebhooks(ctx context.Context, c client.Client, o *operator) error {
	deployments := &deploymentWebhook{}
	mux := http.NewServeMux()
	mux.Handle("/default-site", admission.WithDefaulter(c.Scheme(), siteWebhook{}))
	mux.Handle("/validate-site", admission.WithValidator(c.Scheme(), siteWebhook{}))
	mux.Handle("/default-deployment", admission.WithDefaulter(c.Scheme(), deployments))
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	mutating, validating := configurations(server)
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Create(ctx, configuration); err != nil {
			return err
		}
	}
	if err := createAndWait(ctx, c, o, "hooked", 2); err != nil {
		return err
	}
	site, deployment := newSite("hooked"), deploymentOf("hooked")
	if err := c.Get(ctx, client.ObjectKeyFromObject(site), site); err != nil {
		return err
	}
	if team := site.GetLabels()["team"]; team == "" {
		return errors.New("the site got no team")
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	if deployment.Annotations["example.com/seen"] != "yes" || deployments.seen.Load() == 0 {
		return fmt.Errorf("the webhook of deployments was not called: %v", deployment.Annotations)
	}
	many := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"replicas": 11}}`))
	expected := `admission webhook "validate.sites.example.com" denied the request: a site has at most 10 replicas`
	if err := c.Patch(ctx, newSite("hooked"), many); !apierrors.IsForbidden(err) || err.Error() != expected {
		return fmt.Errorf("a site with too many replicas: %v", err)
	}
	kept := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"keep": "yes"}}}`))
	if err := c.Patch(ctx, newSite("hooked"), kept); err != nil {
		return err
	}
	if err := c.Delete(ctx, newSite("hooked")); !apierrors.IsConflict(err) {
		return fmt.Errorf("the deletion of a kept site: %v", err)
	}
	released := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"keep": null}}}`))
	if err := c.Patch(ctx, newSite("hooked"), released); err != nil {
		return err
	}
	if err := deleteSite(ctx, c, o, "hooked", metav1.DeletePropagationBackground); err != nil {
		return err
	}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Delete(ctx, configuration); err != nil {
			return err
		}
	}
	return nil
}

// configurations returns the configurations of the webhooks of a server.
func configurations(server *httptest.Server) (client.Object, client.Object) {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := func(path string) admissionv1.WebhookClientConfig {
		url := server.URL + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: authority}
	}
	rule := func(group, resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
			},
		}}
	}
	none, versions := admissionv1.SideEffectClassNone, []string{"v1"}
	create, update := admissionv1.Create, admissionv1.Update
	mutating := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sites.example.com"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.sites.example.com", ClientConfig: config("/default-site"), SideEffects: &none,
			AdmissionReviewVersions: versions, Rules: rule("example.com", "sites", create),
		}, {
			Name: "default.deployments.example.com", ClientConfig: config("/default-deployment"), SideEffects: &none,
			AdmissionReviewVersions: versions, Rules: rule("apps", "deployments", create, update),
		}},
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sites.example.com"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate.sites.example.com", ClientConfig: config("/validate-site"), SideEffects: &none,
			AdmissionReviewVersions: versions,
			Rules:                   rule("example.com", "sites", create, update, admissionv1.Delete),
		}},
	}
	return mutating, validating
}
