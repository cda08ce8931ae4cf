// The HTTP server of a pod, which shows what has arrived.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func backend() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", req.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!DOCTYPE html><HTML><a HREF=/below?x=1&amp;y=2 class=\"k\">/below</a><img src='http://other/x'><script>'<a href=\"/x\">'</script></html>")
	})
	mux.HandleFunc("/cors", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "max-age=5")
		w.Header().Set("X-Kept", "yes")
		w.WriteHeader(http.StatusTeapot)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, req *http.Request) {
		buffer := make([]byte, 1024)
		for {
			n, err := req.Body.Read(buffer)
			fmt.Fprint(w, strings.ToUpper(string(buffer[:n])))
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			fmt.Fprintln(w, "tick")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	mux.HandleFunc("/switch", func(w http.ResponseWriter, req *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "shout" {
			http.Error(w, "only shouting", http.StatusUpgradeRequired)
			return
		}
		body, _ := io.ReadAll(req.Body)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\nX-Own: 1\r\nX-Body: %q\r\n\r\n", body)
		buffer := make([]byte, 1024)
		for {
			n, err := rw.Read(buffer)
			if err != nil {
				return
			}
			fmt.Fprint(conn, strings.ToUpper(string(buffer[:n])))
		}
	})
	mux.HandleFunc("/", echo)
	return mux
}

// echo answers with what has arrived.
func echo(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	answer := map[string]any{
		"method": req.Method, "uri": req.RequestURI, "host": req.Host, "headers": req.Header, "body": string(body),
	}
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		answer["client"] = req.TLS.PeerCertificates[0].Subject.CommonName
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
