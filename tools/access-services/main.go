// The services that an API server asks about access, made of upstream's types: webhooks that authorize and that review
// tokens, and an OpenID provider that issues tokens.
//
// It serves HTTPS at a free port of this host, writes its certificate and the kubeconfig of each webhook to the folder in
// the first argument, prints its URL, and ends with its standard input.
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
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(folder string) error {
	certificate, authority, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://%s", listener.Addr())
	if err := os.WriteFile(filepath.Join(folder, "ca.crt"), authority, 0o600); err != nil {
		return err
	}
	handlers := http.NewServeMux()
	webhooks := map[string]func(any) error{"authorizer": authorize, "token-reviewer": reviewToken}
	for name, answer := range webhooks {
		handlers.Handle("POST /"+name, reviews(answer))
		config := kubeconfig(url+"/"+name, authority)
		if err := clientcmd.WriteToFile(*config, filepath.Join(folder, name+".kubeconfig")); err != nil {
			return err
		}
	}
	issuer, err := newIssuer(url + "/issuer")
	if err != nil {
		return err
	}
	issuer.register(handlers, "/issuer")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(url)
	server := http.Server{Handler: handlers, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	return server.ServeTLS(listener, "", "")
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

// kubeconfig returns what an API server needs to call a webhook.
func kubeconfig(url string, authority []byte) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["webhook"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos["server"] = &clientcmdapi.AuthInfo{Token: callerToken}
	config.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "webhook", AuthInfo: "server"}
	config.CurrentContext = "webhook"
	return config
}
