package brokers_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func connectNATS(address string) (jetstream.JetStream, *nats.Conn, error) {
	conn, err := nats.Connect(address, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	stream, err := jetstream.New(conn)
	return stream, conn, err
}

func init() {
	loops["NATS JetStream"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		stream, conn, err := connectNATS(p.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		consumer, err := stream.Consumer(ctx, topic, p.Group)
		if err != nil {
			return err
		}
		return brokers.NATS(ctx, consumer, c, do)
	}
}

// TestNATS is on a server in this process, which keeps its stream in files.
func TestNATS(t *testing.T) {
	t.Parallel()
	port, err := postgrestest.FreePort()
	require.NoError(t, err)
	folder := t.TempDir()
	var s *server.Server
	start := func() {
		s, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true})
		require.NoError(t, err)
		s.Start()
		require.True(t, s.ReadyForConnections(20*time.Second))
	}
	stop := func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	start()
	t.Cleanup(stop)
	b := broker{name: "NATS JetStream", address: s.ClientURL(), groups: []string{"first", "second"}}
	js, conn, err := connectNATS(b.address)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
	require.NoError(t, err)
	for _, group := range b.groups {
		_, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second})
		require.NoError(t, err)
	}
	b.publish = func(ctx context.Context, ids []string) error {
		for _, id := range ids {
			m := &nats.Msg{Subject: topic, Header: nats.Header{"id": {id}}, Data: []byte("body of " + id)}
			if _, err := js.PublishMsg(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
	b.left = func(ctx context.Context) (int, error) {
		left := 0
		for _, group := range b.groups {
			c, err := stream.Consumer(ctx, group)
			if err != nil {
				return 0, err
			}
			left += int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending
		}
		return left, nil
	}
	b.restart = func() {
		stop()
		start()
	}
	run(t, b)
}
