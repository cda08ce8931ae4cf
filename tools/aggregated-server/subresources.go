package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// connecter is a subresource of a Flunder that answers requests by itself.
type connecter struct {
	flunders rest.Getter
	methods  []string
	serve    http.HandlerFunc
}

func (connecter) New() runtime.Object { return &flunder{} }

func (connecter) Destroy() {}

func (c connecter) ConnectMethods() []string { return c.methods }

// NewConnectOptions says that the handler reads the query itself.
func (connecter) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func (c connecter) Connect(ctx context.Context, name string, _ runtime.Object, _ rest.Responder) (http.Handler, error) {
	if _, err := c.flunders.Get(ctx, name, &metav1.GetOptions{}); err != nil {
		return nil, err
	}
	return c.serve, nil
}

// logConnecter is the subresource "log", which streams lines of text. The query has the number of "lines" (default 10;
// -1 never ends) and the "interval" between them (default 0s).
func logConnecter(flunders rest.Getter) rest.Storage {
	return connecter{flunders, []string{http.MethodGet}, func(w http.ResponseWriter, r *http.Request) {
		lines, interval := 10, time.Duration(0)
		var err error
		if text := r.URL.Query().Get("lines"); text != "" {
			if lines, err = strconv.Atoi(text); err != nil {
				http.Error(w, "lines: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		if text := r.URL.Query().Get("interval"); text != "" {
			if interval, err = time.ParseDuration(text); err != nil {
				http.Error(w, "interval: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		w.Header().Set("Content-Type", "text/plain")
		control := http.NewResponseController(w)
		for line := 0; line != lines; line++ {
			if _, err := fmt.Fprintf(w, "line %d\n", line); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(interval):
			}
		}
	}}
}

// execConnecter is the subresource "exec", which echoes bytes over an upgraded connection. The protocol is "websocket"
// or "echo", which are the bytes as they are. With the query "describe=true" the server first sends the line of JSON
// that the subresource "request" answers. With "refuse=CODE" the server answers the upgrade with this status code.
func execConnecter(flunders rest.Getter) rest.Storage {
	return connecter{flunders, []string{http.MethodGet, http.MethodPost}, func(w http.ResponseWriter, r *http.Request) {
		if code, err := strconv.Atoi(r.URL.Query().Get("refuse")); err == nil {
			http.Error(w, "the server does not upgrade this connection", code)
			return
		}
		first, err := firstBytes(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		switch strings.ToLower(r.Header.Get("Upgrade")) {
		case "websocket":
			websocket.Server{Handler: func(socket *websocket.Conn) {
				socket.PayloadType = websocket.BinaryFrame
				if len(first) > 0 {
					if _, err := socket.Write(first); err != nil {
						return
					}
				}
				io.Copy(socket, socket)
			}}.ServeHTTP(w, r)
		case "echo":
			connection, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer connection.Close()
			fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n%s", first)
			// The client may have sent bytes right behind the request, which are in the buffer.
			io.Copy(connection, buffered)
		default:
			http.Error(w, "the connection must be upgraded to echo or websocket", http.StatusBadRequest)
		}
	}}
}

func firstBytes(r *http.Request) ([]byte, error) {
	if r.URL.Query().Get("describe") != "true" {
		return nil, nil
	}
	line, err := json.Marshal(describe(r))
	return append(line, '\n'), err
}

// requestConnecter is the subresource "request", which answers with the request as it reached this server.
func requestConnecter(flunders rest.Getter) rest.Storage {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions}
	return connecter{flunders, methods, func(w http.ResponseWriter, r *http.Request) {
		described := describe(r)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, errors.NewBadRequest(err.Error()).Error(), http.StatusBadRequest)
			return
		}
		described.Body = string(body)
		described.Trailers = r.Trailer
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.Encode(described)
	}}
}
