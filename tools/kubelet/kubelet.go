// The endpoints of a kubelet that API servers call.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

func kubelet() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, req *http.Request) {
		options, err := remotecommand.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		container := req.PathValue("container")
		if container == "broken" {
			http.Error(w, "the container is broken", http.StatusConflict)
			return
		}
		if container == "redirecting" {
			http.Redirect(w, req, "https://127.0.0.1:1/exec", http.StatusFound)
			return
		}
		remotecommand.ServeExec(w, req, containers{}, req.PathValue("pod"), "", container, req.URL.Query()["command"],
			options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, req *http.Request) {
		options, err := remotecommand.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeAttach(w, req, containers{}, req.PathValue("pod"), "", req.PathValue("container"),
			options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, req *http.Request) {
		options, err := portforward.NewV4Options(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, req, containers{}, req.PathValue("pod"), "", options, idleTimeout,
			creationTimeout, portforward.SupportedProtocols)
	})
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", logs)
	mux.HandleFunc("/", echo)
	return mux
}

// containers runs commands on the host.
type containers struct{}

func (containers) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if len(command) == 1 && command[0] == "size" {
		select {
		case size := <-resize:
			fmt.Fprintf(out, "%dx%d tty=%t\n", size.Width, size.Height, tty)
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("no size")
		}
	}
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Stdout = out
	if err != nil {
		run.Stderr = err
	}
	if in != nil {
		stdin, failed := run.StdinPipe()
		if failed != nil {
			return failed
		}
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	failed := run.Run()
	var exit *exec.ExitError
	if errors.As(failed, &exit) {
		return &utilexec.ExitErrorWrapper{ExitError: exit}
	}
	return failed
}

func (containers) AttachContainer(_ context.Context, _, _, container string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s\n", container)
	if in != nil {
		_, _ = io.Copy(out, in)
	}
	return nil
}

// PortForward connects with a port of the host.
func (containers) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	target, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer target.Close()
	go func() {
		_, _ = io.Copy(target, stream)
		_ = target.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, target)
	return err
}

// logs answers with lines, the first of which is the query. With "follow", the last line is held back until the client
// is known to have received the others.
func logs(w http.ResponseWriter, req *http.Request) {
	switch req.PathValue("container") {
	case "missing":
		http.Error(w, "no such container", http.StatusNotFound)
		return
	case "failing":
		http.Error(w, "the log is gone", http.StatusInternalServerError)
		return
	case "redirecting":
		http.Redirect(w, req, "/elsewhere", http.StatusFound)
		return
	}
	fmt.Fprintf(w, "query %s\n", req.URL.RawQuery)
	for line := 1; line <= 3; line++ {
		fmt.Fprintf(w, "line %d of %s\n", line, req.PathValue("container"))
	}
	if req.URL.Query().Get("follow") != "true" {
		return
	}
	w.(http.Flusher).Flush()
	for line := 4; ; line++ {
		select {
		case <-req.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
			if _, err := fmt.Fprintf(w, "line %d of %s\n", line, strings.ToUpper(req.PathValue("container"))); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}
