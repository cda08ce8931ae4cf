// The WebSockets of a kubelet that declares ExtendWebSocketsToKubelet. As the real one, it translates them to SPDY with
// the handlers of API servers, and calls itself.
package main

import (
	"crypto/tls"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// ownConnection is how the kubelet calls itself.
type ownConnection struct {
	host      string
	transport *http.Transport
}

func newOwnConnection(host string, pair tls.Certificate) ownConnection {
	config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
	return ownConnection{host: host, transport: &http.Transport{TLSClientConfig: config}}
}

type failure struct{}

func (failure) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// serve translates WebSockets, and hands other requests on.
func (c ownConnection) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		location := &url.URL{Scheme: "https", Host: c.host, Path: req.URL.Path, RawQuery: req.URL.RawQuery}
		query := req.URL.Query()
		switch {
		case wsstream.IsWebSocketRequestWithStreamCloseProtocol(req):
			options := translator.Options{
				Stdin:  query.Get("input") == "1",
				Stdout: query.Get("output") == "1",
				Stderr: query.Get("error") == "1",
				Tty:    query.Get("tty") == "1",
			}
			translator.NewStreamTranslatorHandler(location, c.transport, 0, options).ServeHTTP(w, req)
		case wsstream.IsWebSocketRequestWithTunnelingProtocol(req):
			handler := proxy.NewUpgradeAwareHandler(location, c.transport, false, true, failure{})
			translator.NewTunnelingHandler(handler).ServeHTTP(w, req)
		default:
			next.ServeHTTP(w, req)
		}
	})
}
