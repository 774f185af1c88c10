package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
)

// childVariable makes the test's binary run as a program in the test's place.
const childVariable = "ORDERS_CHILD"

func TestMain(m *testing.M) {
	lifeline.Follow()
	switch os.Getenv(childVariable) {
	case "confined":
		if err := confine(os.Getenv("FOLDER")); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(unconfined)
		}
		main()
		os.Exit(0)
	case "free":
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// unconfined is the exit status for a child that can't have its own root.
const unconfined = 3

// fleet runs one service, and starts it again after each kill and each deploy.
type fleet struct {
	t       *testing.T
	address string
	env     []string
	log     *os.File
	attr    *syscall.SysProcAttr
	process *exec.Cmd
	ended   chan error

	kills, deploys int
}

func (f *fleet) start() error {
	f.process = exec.Command(os.Args[0])
	f.process.Env = append(os.Environ(), f.env...)
	f.process.Stdout, f.process.Stderr, f.process.SysProcAttr = f.log, f.log, f.attr
	if err := lifeline.Tie(f.process); err != nil {
		return err
	}
	if err := f.process.Start(); err != nil {
		return err
	}
	f.ended = make(chan error, 1)
	go func(c *exec.Cmd, ended chan<- error) { ended <- c.Wait() }(f.process, f.ended)
	return nil
}

// ready waits until the service listens.
func (f *fleet) ready() error {
	for {
		conn, err := net.Dial("tcp", f.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-f.ended:
			f.ended <- err
			return errors.Join(errors.New("it ended by itself"), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (f *fleet) kill() {
	f.kills++
	_ = f.process.Process.Kill()
	<-f.ended
}

// stop ends the service as a deploy does, which waits for it to be ready first.
func (f *fleet) stop() {
	f.deploys++
	if !assert.NoError(f.t, f.ready()) {
		return
	}
	_ = f.process.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-f.ended:
		assert.NoError(f.t, err, "the service did not end in order")
	case <-time.After(2 * grace):
		assert.Fail(f.t, "the service did not end")
		_ = f.process.Process.Kill()
		<-f.ended
	}
}

// storm kills and deploys until end is closed. About one service in three may be killed before it is ready. If each
// were, nothing would ever be done on a machine where starting takes long. Services live longer and longer, since an
// order may take longer than a service lives at first.
func (f *fleet) storm(random *rand.Rand, longer int, end <-chan struct{}) {
	for n := 0; ; n++ {
		if random.IntN(3) > 0 && !assert.NoError(f.t, f.ready()) {
			return
		}
		select {
		case <-end:
			return
		case <-time.After(time.Duration(100+random.IntN(500)) * time.Millisecond * time.Duration(longer*(10+n)) / 10):
		}
		if random.IntN(3) > 0 {
			f.kill()
		} else {
			f.stop()
		}
		if !assert.NoError(f.t, f.start()) {
			return
		}
	}
}

// freeAddress is an address that the service can take again and again. On Linux all of 127.0.0.0/8 is the machine's
// own, and other programs use 127.0.0.1. So the port stays free while the service is dead.
func freeAddress(t *testing.T) string {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	l, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
