// A kubelet's server for tests: exec, attach and port forwarding as upstream's streaming library serves them, over TLS
// with client certificates, and answers that show what has arrived. It runs commands on the host instead of containers.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	certificate := flag.String("certificate", "", "file with the certificate of the server")
	key := flag.String("key", "", "file with its key")
	clientCA := flag.String("client-ca", "", "file with the authority of client certificates")
	clientCertificate := flag.String("client-certificate", "", "file with the certificate with which it calls itself")
	clientKey := flag.String("client-key", "", "file with the key of that certificate")
	plain := flag.String("plain", "127.0.0.1:0", "address of a server without TLS, which stands for a pod")
	flag.Parse()
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	clientPair, err := tls.LoadX509KeyPair(*clientCertificate, *clientKey)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if *clientCA != "" {
		pem, err := os.ReadFile(*clientCA)
		if err != nil {
			log.Fatal(err)
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	secure, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		log.Fatal(err)
	}
	pod, err := net.Listen("tcp", *plain)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(secure.Addr().(*net.TCPAddr).Port, pod.Addr().(*net.TCPAddr).Port)
	own := newOwnConnection(secure.Addr().String(), clientPair)
	go func() {
		log.Fatal(http.Serve(secure, own.serve(kubelet())))
	}()
	go func() {
		log.Fatal(http.Serve(pod, backend()))
	}()
	// The test ends this program by closing its standard input.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
