//go:build unix

package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// program returns the path to a server's program. Without it the test is skipped, or fails if ONCEWARD_BROKERS=required.
func program(t *testing.T, places ...string) string {
	t.Helper()
	for _, place := range places {
		if path, err := exec.LookPath(place); err == nil {
			return path
		}
	}
	if os.Getenv("ONCEWARD_BROKERS") == "required" {
		t.Fatalf("no %s", filepath.Base(places[0]))
	}
	t.Skipf("no %s: install it to run this test", filepath.Base(places[0]))
	return ""
}

// serve starts a server in a separate process group. kill kills the group, as this process's end does.
func serve(t *testing.T, folder string, env []string, args ...string) (kill func()) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", `"$@" </dev/null & cat >/dev/null; kill -KILL $!; wait; kill -KILL 0`, "sh"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = folder, append(os.Environ(), env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = leash.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	return kill
}

// await waits until a server answers, whose log is in folder.
func await(t *testing.T, folder string, ask func() error) {
	t.Helper()
	for end := time.Now().Add(timeLimit); ; time.Sleep(50 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(folder, "log"))
			t.Fatalf("the server does not answer: %v\n%s", err, log)
		}
	}
}

func init() {
	loops["Redis streams"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		client := redis.NewClient(&redis.Options{Addr: p.Address})
		defer client.Close()
		return brokers.Redis(ctx, client, topic, p.Group, p.Name, 500*time.Millisecond, c, do)
	}
	loops["RabbitMQ"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		return brokers.RabbitMQ(ctx, p.Address, p.Group, topic, c, do)
	}
}

// TestRedis is on a Redis that writes each command to its file before it answers.
func TestRedis(t *testing.T) {
	path := program(t, "redis-server")
	t.Parallel()
	port, err := postgrestest.FreePort()
	require.NoError(t, err)
	folder := t.TempDir()
	b := broker{name: "Redis streams", address: fmt.Sprint("127.0.0.1:", port), groups: []string{"first", "second"}}
	client := redis.NewClient(&redis.Options{Addr: b.address})
	t.Cleanup(func() { _ = client.Close() })
	start := func() (kill func()) {
		kill = serve(t, folder, nil, path, "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		await(t, folder, func() error { return client.Ping(t.Context()).Err() })
		return kill
	}
	kill := start()
	for _, group := range b.groups {
		require.NoError(t, client.XGroupCreateMkStream(t.Context(), topic, group, "0").Err())
	}
	b.publish = func(ctx context.Context, ids []string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range ids {
				p.XAdd(ctx, &redis.XAddArgs{Stream: topic, Values: []string{"id", id, "body", "body of " + id}})
			}
			return nil
		})
		return err
	}
	b.left = func(ctx context.Context) (int, error) {
		groups, err := client.XInfoGroups(ctx, topic).Result()
		left := 0
		for _, g := range groups { // whose Lag is unknown at times
			next, err := client.XRangeN(ctx, topic, "("+g.LastDeliveredID, "+", 1).Result()
			if err != nil {
				return 0, err
			}
			left += len(next) + int(g.Pending)
		}
		return left, err
	}
	b.restart = func() {
		kill()
		kill = start()
	}
	run(t, b)
}

// TestRabbitMQ is on a RabbitMQ with durable queues and confirmed messages. A queue is a group: each gets all messages of an
// exchange. Erlang's port mapper runs in the foreground, on a separate port, so that it ends with the test.
func TestRabbitMQ(t *testing.T) {
	// Debian's command in PATH runs as one user alone. The other path is of the command behind it.
	path, mapper := program(t, "/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"), program(t, "epmd")
	t.Parallel()
	folder := t.TempDir()
	ports := make([]string, 3)
	for i := range ports {
		port, err := postgrestest.FreePort()
		require.NoError(t, err)
		ports[i] = fmt.Sprint(port)
	}
	env := []string{
		"HOME=" + folder, "RABBITMQ_NODENAME=onceward@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0],
		"RABBITMQ_DIST_PORT=" + ports[1], "ERL_EPMD_PORT=" + ports[2], "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_LOGS=-",
		"RABBITMQ_MNESIA_BASE=" + folder, "RABBITMQ_LOG_BASE=" + folder, "RABBITMQ_SCHEMA_DIR=" + folder,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(folder, "plugins"), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(folder, "none"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(folder, "none"), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +S 1:1",
	}
	b := broker{name: "RabbitMQ", address: "amqp://guest:guest@127.0.0.1:" + ports[0], groups: []string{"first", "second"}}
	serve(t, folder, env, mapper)
	await(t, folder, func() error { // otherwise RabbitMQ starts a mapper, which stays
		conn, err := net.Dial("tcp", "127.0.0.1:"+ports[2])
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	start := func() (kill func()) {
		kill = serve(t, folder, env, path)
		await(t, folder, func() error { return onChannel(b.address, func(*amqp.Channel) error { return nil }) })
		return kill
	}
	kill := start()
	require.NoError(t, onChannel(b.address, func(c *amqp.Channel) error {
		err := c.ExchangeDeclare(topic, amqp.ExchangeFanout, true, false, false, false, nil)
		for _, group := range b.groups {
			_, declared := c.QueueDeclare(group, true, false, false, false, nil)
			err = errors.Join(err, declared, c.QueueBind(group, "", topic, false, nil))
		}
		return err
	}))
	b.publish = func(ctx context.Context, ids []string) error {
		return onChannel(b.address, func(c *amqp.Channel) error {
			if err := c.Confirm(false); err != nil {
				return err
			}
			confirms := make([]*amqp.DeferredConfirmation, len(ids))
			for i, id := range ids {
				var err error
				m := amqp.Publishing{MessageId: id, Body: []byte("body of " + id), DeliveryMode: amqp.Persistent}
				if confirms[i], err = c.PublishWithDeferredConfirmWithContext(ctx, topic, "", false, false, m); err != nil {
					return err
				}
			}
			for _, confirm := range confirms {
				if confirmed, err := confirm.WaitContext(ctx); err != nil || !confirmed {
					return errors.Join(err, errors.New("not confirmed"))
				}
			}
			return nil
		})
	}
	b.left = func(context.Context) (left int, err error) { // those that no consumer has in hand
		err = onChannel(b.address, func(c *amqp.Channel) error {
			for _, group := range b.groups {
				q, err := c.QueueDeclarePassive(group, true, false, false, false, nil)
				if err != nil {
					return err
				}
				left += q.Messages
			}
			return nil
		})
		return left, err
	}
	b.restart = func() {
		kill()
		kill = start()
	}
	run(t, b)
}

// onChannel calls do with a RabbitMQ channel.
func onChannel(address string, do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(c)
}
