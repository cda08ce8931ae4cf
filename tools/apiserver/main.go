// Command apiserver runs a Kubernetes API server made of the public libraries k8s.io/apiserver and
// k8s.io/apiextensions-apiserver over etcd. `cargo xtask compare` sends it the same requests as Pintle, and
// `cargo xtask bench` measures both.
//
// It serves CustomResourceDefinitions and custom resources exactly as kube-apiserver does, and some built-in kinds with
// their real types and upstream's generic registry, but without defaulting and validation of these kinds, which no
// public library has. The two servers are chained as in kube-apiserver: what the first does not know, the second answers.
//
// With --proxy-client-cert-file, k8s.io/kube-aggregator is the first server of the chain. APIServices with a service work
// then as in kube-apiserver, and services and EndpointSlices are stored as well. Without the flag there is no aggregation.
//
// With --enable-priority-and-fairness, FlowSchemas and PriorityLevelConfigurations are served, and the mandatory and
// suggested ones are created at the start. With --enable-admission-plugins=ValidatingAdmissionWebhook,
// ValidatingWebhookConfigurations are served.
//
// The flags for audit, and --encryption-provider-config, are kube-apiserver's. The whole chain has one audit backend, so each request has one event per stage.
//
// The program starts etcd as a child process, unless one is given, prints one line of JSON when it is ready, and ends when its standard
// input is closed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	flag "github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// ready is the line that is printed when the server answers requests.
type ready struct {
	// URL is the base of all requests.
	URL string `json:"url"`
	// Kubeconfig is the file with the address, the certificate authority and the token of an administrator.
	Kubeconfig string `json:"kubeconfig"`
	// Processes are the process IDs of this program and of the etcd that it has started.
	Processes []int `json:"processes"`
}

func main() {
	etcd := flag.String("etcd", "", "the etcd program (default: etcd in the folder of this program)")
	shared := flag.String("etcd-servers", "", "the address of an etcd that is running, which may have other servers")
	folder := flag.String("data-dir", "", "an empty folder for etcd's data, certificates and the kubeconfig (required)")
	cache := flag.Bool("watch-cache", true, "serve reads from the watch cache")
	sync := flag.Bool("fsync", true, "let etcd sync its log before it acknowledges a write")
	gates := flag.String("feature-gates", "", "NAME=true|false pairs, comma separated")
	var aggregation aggregation
	aggregation.addFlags(flag.CommandLine)
	audit := genericoptions.NewAuditOptions()
	audit.AddFlags(flag.CommandLine)
	flowControl := flag.Bool("enable-priority-and-fairness", false, "let requests wait for the seats of their priority level")
	plugins := flag.StringSlice("enable-admission-plugins", nil, "admission plugins in addition to NamespaceLifecycle")
	encryption := flag.String("encryption-provider-config", "", "the file that says how stored objects are encrypted")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(2)
	}
	if errs := audit.Validate(); len(errs) > 0 {
		fmt.Fprintln(os.Stderr, "apiserver:", errors.Join(errs...))
		os.Exit(2)
	}
	// The field manager of the server's own writes is the name of the program.
	os.Args[0] = "kube-apiserver"
	if err := run(*etcd, *shared, *folder, options{*cache, aggregation, audit, *flowControl, *plugins, *encryption}, *sync); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(program, shared, folder string, options options, sync bool) error {
	if folder == "" {
		return fmt.Errorf("--data-dir is required")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		program = filepath.Join(filepath.Dir(self), "etcd")
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()

	processes := []int{os.Getpid()}
	if shared == "" {
		etcd, err := startEtcd(program, folder, sync)
		if err != nil {
			return err
		}
		defer etcd.stop()
		go func() {
			etcd.wait()
			stop()
		}()
		shared = etcd.url
		processes = append(processes, etcd.process())
	}

	server, err := newServer(ctx, folder, shared, options)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.run(ctx) }()
	if err := server.waitUntilReady(ctx, 60*time.Second); err != nil {
		return err
	}
	kubeconfig, err := server.writeKubeconfig(folder)
	if err != nil {
		return err
	}
	line := ready{URL: server.url, Kubeconfig: kubeconfig, Processes: processes}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		return err
	}
	// What is left of the connections needs no orderly end: the data is thrown away.
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
