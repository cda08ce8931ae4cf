// An authorization webhook made of upstream's types. It serves HTTPS at a free port of this host, writes a kubeconfig for
// itself to the file in the first argument, prints READY, and ends with its standard input.
//
// It decodes reviews strictly. alice may do everything but read secrets, which is denied; nodes may list what they select
// by their name; all others are unknown to it.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// token is the bearer token that callers need.
const token = "webhook-token"

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	certificate, authority, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["webhook"] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://%s/authorize", listener.Addr()),
		CertificateAuthorityData: authority,
	}
	config.AuthInfos["server"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "webhook", AuthInfo: "server"}
	config.CurrentContext = "webhook"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	http.HandleFunc("POST /authorize", authorize)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println("READY")
	return http.Serve(listener, nil)
}

// selfSigned returns a certificate for this host, and the same in PEM.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// authorize answers a review.
func authorize(w http.ResponseWriter, request *http.Request) {
	if request.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	object, version, err := strict.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch review := object.(type) {
	case *authorizationv1.SubjectAccessReview:
		review.Status = decide(review.Spec)
	case *authorizationv1beta1.SubjectAccessReview:
		status := decide(authorizationv1.SubjectAccessReviewSpec{
			User:               review.Spec.User,
			Groups:             review.Spec.Groups,
			ResourceAttributes: (*authorizationv1.ResourceAttributes)(review.Spec.ResourceAttributes),
		})
		review.Status = authorizationv1beta1.SubjectAccessReviewStatus(status)
	default:
		http.Error(w, fmt.Sprintf("unexpected %v", version), http.StatusBadRequest)
		return
	}
	answer, err := runtime.Encode(scheme.Codecs.LegacyCodec(version.GroupVersion()), object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// decide answers the spec of a review.
func decide(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	resource := spec.ResourceAttributes
	switch {
	case resource == nil:
		return authorizationv1.SubjectAccessReviewStatus{Reason: "only resources"}
	case spec.User == "alice" && resource.Resource == "secrets":
		return authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "no secrets for alice"}
	case spec.User == "alice":
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	case resource.FieldSelector != nil && selects(resource.FieldSelector, "spec.nodeName", spec.User):
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	return authorizationv1.SubjectAccessReviewStatus{Reason: fmt.Sprintf("%s is unknown", spec.User)}
}

// selects tells whether a selector requires a value.
func selects(selector *authorizationv1.FieldSelectorAttributes, key, value string) bool {
	for _, requirement := range selector.Requirements {
		isIn := requirement.Operator == metav1.FieldSelectorOpIn
		if requirement.Key == key && isIn && len(requirement.Values) == 1 && requirement.Values[0] == value {
			return true
		}
	}
	return false
}
