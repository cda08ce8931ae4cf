package main

import (
	"context"
	"net/http"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// receivedRequest is a request as it reached this server, before any filter has changed its headers.
type receivedRequest struct {
	Method   string `json:"method"`
	URI      string `json:"uri"`
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	// Headers are all headers but those that the HTTP library takes out: Host, Content-Length and Transfer-Encoding.
	Headers          http.Header `json:"headers"`
	ContentLength    int64       `json:"contentLength"`
	TransferEncoding []string    `json:"transferEncoding,omitempty"`
	Trailers         http.Header `json:"trailers,omitempty"`
	Body             string      `json:"body,omitempty"`
	// ServerName is the name that the client asked for in the TLS handshake.
	ServerName string `json:"serverName"`
	// ClientCertificate is the subject of the client's certificate.
	ClientCertificate string `json:"clientCertificate,omitempty"`
	// User is the result of this server's authentication.
	User *userInfo `json:"user,omitempty"`
}

type userInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

type receivedKey struct{}

// recordRequest keeps a copy of the request in its context, because the authentication removes headers.
func recordRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received := receivedRequest{
			Method: r.Method, URI: r.RequestURI, Protocol: r.Proto, Host: r.Host, Headers: r.Header.Clone(),
			ContentLength: r.ContentLength, TransferEncoding: r.TransferEncoding,
		}
		if r.TLS != nil {
			received.ServerName = r.TLS.ServerName
			if len(r.TLS.PeerCertificates) > 0 {
				received.ClientCertificate = r.TLS.PeerCertificates[0].Subject.String()
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), receivedKey{}, received)))
	})
}

// describe returns the recorded request with its user.
func describe(r *http.Request) receivedRequest {
	received, _ := r.Context().Value(receivedKey{}).(receivedRequest)
	if user, ok := genericapirequest.UserFrom(r.Context()); ok {
		received.User = &userInfo{user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra()}
	}
	return received
}
