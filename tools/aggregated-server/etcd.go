package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// etcd is a child process with one member, the storage of this server alone.
type etcd struct {
	url     string
	command *exec.Cmd
	ended   chan struct{}
}

// startEtcd starts etcd with its data in folder and waits until it accepts connections. Clients and peers connect
// through sockets in the folder, so etcd takes no port.
func startEtcd(program, folder string) (*etcd, error) {
	// etcd takes the sockets relative to its working directory and requires names of the form HOST:PORT.
	const client, peer = "client.sock:0", "peer.sock:0"
	socket := filepath.Join(folder, client)
	log, err := os.Create(filepath.Join(folder, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(program,
		"--data-dir", "etcd",
		"--listen-client-urls", "unix://"+client, "--advertise-client-urls", "unix://"+client,
		"--listen-peer-urls", "unix://"+peer, "--initial-advertise-peer-urls", "unix://"+peer,
		"--initial-cluster", "default=unix://"+peer,
		"--log-level", "warn",
		// Tests and benchmarks discard the data, so no write waits for the disk.
		"--unsafe-no-fsync")
	command.Dir = folder
	command.Stdout, command.Stderr = log, log
	// The kernel ends etcd when this program ends, even after SIGKILL. A terminal's Ctrl-C goes to this program only.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := command.Start(); err != nil {
		return nil, err
	}
	started := &etcd{url: "unix://" + socket, command: command, ended: make(chan struct{})}
	go func() {
		command.Wait()
		close(started.ended)
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if connection, err := net.Dial("unix", socket); err == nil {
			connection.Close()
			return started, nil
		}
		select {
		case <-started.ended:
			return nil, fmt.Errorf("etcd ended: see %s", log.Name())
		default:
		}
		if time.Now().After(deadline) {
			started.stop()
			return nil, fmt.Errorf("etcd does not answer: see %s", log.Name())
		}
	}
}

// stop ends etcd and waits for its end.
func (e *etcd) stop() {
	e.command.Process.Kill()
	<-e.ended
}
