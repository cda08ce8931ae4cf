// Command aggregated-server is an API server that runs behind another API server's aggregation layer. It is made of
// k8s.io/apiserver and its own etcd. Tests of the aggregation layer and its benchmarks use it.
//
// It serves the group wardle.example.com at v1 (preferred) and v1beta1: the namespaced kind Flunder with the
// subresources status, log (streams text), exec (upgrades the connection) and request (answers with the received
// request), and the kind Fischer without namespace. TokenReviews and the ConfigMap
// kube-system/extension-apiserver-authentication of the main server authenticate users; its SubjectAccessReviews
// authorize them.
//
// The program listens on 127.0.0.1, prints one line when it is ready, and ends on SIGTERM or SIGINT together with its etcd.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// flags are the flags beside upstream's.
type flags struct {
	port                 int
	etcdProgram          string
	etcdFolder           string
	writeCA              string
	serverNames          []string
	withoutAuthorization bool
}

func main() {
	if err := run(genericapiserver.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, "aggregated-server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	plugin := newBanFlunder()
	options := newOptions(plugin)
	flags, err := parse(options)
	if err != nil {
		return err
	}
	// The field manager of a client is the name of its program, so this one does not depend on the file's name.
	os.Args[0] = "aggregated-server"

	folder, remove, err := dataFolder(flags.etcdFolder)
	if err != nil {
		return err
	}
	defer remove()
	etcd, err := startEtcd(flags.etcdProgram, folder)
	if err != nil {
		return err
	}
	defer etcd.stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		<-etcd.ended
		stop()
	}()

	options.Etcd.StorageConfig.Transport.ServerList = []string{etcd.url}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", flags.port))
	if err != nil {
		return err
	}
	defer listener.Close()
	address := listener.Addr().(*net.TCPAddr)
	serving := options.SecureServing
	serving.Listener, serving.BindAddress, serving.BindPort = listener, address.IP, address.Port
	if err := useCertificate(serving, folder, flags.writeCA, flags.serverNames); err != nil {
		return err
	}
	if err := utilerrors.NewAggregate(options.Validate()); err != nil {
		return err
	}
	server, err := newServer(options, plugin)
	if err != nil {
		return err
	}
	return serve(ctx, server, address)
}

// serve runs the server until the context ends, and prints the address as soon as the server is ready.
func serve(ctx context.Context, server *genericapiserver.GenericAPIServer, address net.Addr) error {
	ended := make(chan error, 1)
	go func() { ended <- server.PrepareRun().RunWithContext(ctx) }()
	ready := make(chan error, 1)
	go func() { ready <- waitUntilReady(ctx, server, 60*time.Second) }()
	select {
	case err := <-ended:
		return err
	case err := <-ready:
		if ctx.Err() != nil {
			return <-ended
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("listening on %s\n", address)
	return <-ended
}

func parse(options *genericoptions.RecommendedOptions) (flags, error) {
	var parsed flags
	set := pflag.NewFlagSet("aggregated-server", pflag.ExitOnError)
	set.IntVar(&parsed.port, "secure-port", 0, "The port on 127.0.0.1 on which to serve HTTPS. 0 takes any free port.")
	set.StringVar(&parsed.etcdProgram, "etcd", "", "The etcd program. By default etcd in the folder of this program.")
	set.StringVar(&parsed.etcdFolder, "etcd-data-dir", "", "The folder of etcd's data. By default a temporary folder that is removed at the end.")
	set.StringVar(&parsed.writeCA, "write-ca", "", "The file to which the server's certificate is written, which clients trust.")
	set.StringSliceVar(&parsed.serverNames, "tls-san", []string{"api.wardle.svc"},
		"Further DNS names of the self-signed certificate. The aggregation layer connects to SERVICE.NAMESPACE.svc.")
	set.BoolVar(&parsed.withoutAuthorization, "without-authorization", false, "Allow everything, without SubjectAccessReviews. For benchmarks.")
	pair := &options.SecureServing.ServerCert.CertKey
	set.StringVar(&pair.CertFile, "tls-cert-file", "", "The server's certificate. By default a self-signed certificate.")
	set.StringVar(&pair.KeyFile, "tls-private-key-file", "", "The key of the server's certificate.")
	options.CoreAPI.AddFlags(set)
	options.Authentication.AddFlags(set)
	options.Authorization.AddFlags(set)
	options.Admission.AddFlags(set)
	if err := set.Parse(os.Args[1:]); err != nil {
		return flags{}, err
	}
	main := options.CoreAPI.CoreAPIKubeconfigPath
	for _, file := range []*string{&options.Authentication.RemoteKubeConfigFile, &options.Authorization.RemoteKubeConfigFile} {
		if *file == "" {
			*file = main
		}
	}
	if parsed.withoutAuthorization {
		options.Authorization = nil
	}
	if parsed.etcdProgram == "" {
		self, err := os.Executable()
		if err != nil {
			return flags{}, err
		}
		parsed.etcdProgram = filepath.Join(filepath.Dir(self), "etcd")
	}
	return parsed, nil
}

// dataFolder returns the folder for etcd's data and certificates, and the function that cleans up at the end.
func dataFolder(given string) (string, func(), error) {
	if given == "" {
		folder, err := os.MkdirTemp("", "aggregated-server-")
		return folder, func() { os.RemoveAll(folder) }, err
	}
	folder, err := filepath.Abs(given)
	if err != nil {
		return "", nil, err
	}
	return folder, func() {}, os.MkdirAll(folder, 0o700)
}
