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

// etcd is a child process with one member.
type etcd struct {
	url     string
	command *exec.Cmd
	ended   chan struct{}
}

// startEtcd starts etcd with its data in folder and waits until it accepts connections. Clients and peers connect
// through sockets in the folder, so no port is taken.
func startEtcd(program, folder string, sync bool) (*etcd, error) {
	// etcd takes the sockets relative to its working directory, and wants a name of the form HOST:PORT.
	const client, peer = "client.sock:0", "peer.sock:0"
	socket := filepath.Join(folder, client)
	log, err := os.Create(filepath.Join(folder, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	arguments := []string{
		"--data-dir", "etcd",
		"--listen-client-urls", "unix://" + client, "--advertise-client-urls", "unix://" + client,
		"--listen-peer-urls", "unix://" + peer, "--initial-advertise-peer-urls", "unix://" + peer,
		"--initial-cluster", "default=unix://" + peer,
		"--log-level", "warn",
	}
	if !sync {
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	command := exec.Command(program, arguments...)
	command.Dir = folder
	command.Stdout, command.Stderr = log, log
	// etcd does not outlive this program, however that ends.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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

func (e *etcd) process() int { return e.command.Process.Pid }

func (e *etcd) wait() { <-e.ended }

func (e *etcd) stop() {
	e.command.Process.Kill()
	e.wait()
}
