package brokers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/examples/brokers"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

func init() {
	loops["Kafka"] = func(ctx context.Context, p plan, c *consume.Consumer, do brokers.Handler) error {
		return brokers.Kafka(ctx, c, do, kgo.SeedBrokers(p.Address), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(p.Group),
			kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(100*time.Millisecond), // a dead member is noticed soon
			kgo.FetchMaxWait(200*time.Millisecond)) // likewise a seek, which waits for the fetch before
	}
}

// TestKafka is on a Kafka in a box, which keeps its log in files.
func TestKafka(t *testing.T) {
	t.Parallel()
	port, err := postgrestest.FreePort()
	require.NoError(t, err)
	folder := t.TempDir()
	var cluster *kfake.Cluster
	start := func() {
		cluster, err = kfake.NewCluster(kfake.Ports(port), kfake.SeedTopics(4, topic), kfake.GroupMinSessionTimeout(time.Millisecond), kfake.DataDir(folder))
		require.NoError(t, err)
	}
	start()
	t.Cleanup(func() { cluster.Close() })
	b := broker{name: "Kafka", address: cluster.ListenAddrs()[0], groups: []string{"first", "second"}}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b.publish = func(ctx context.Context, ids []string) error {
		var records []*kgo.Record
		for _, id := range ids {
			records = append(records, &kgo.Record{Key: []byte(id), Value: []byte("body of " + id), Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}})
		}
		return client.ProduceSync(ctx, records...).FirstErr()
	}
	b.left = func(ctx context.Context) (int, error) {
		admin := kadm.NewClient(client)
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return 0, err
		}
		left := 0
		for _, group := range b.groups {
			committed, err := admin.FetchOffsets(ctx, group)
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // it has had no member yet
				return 0, err
			}
			ends.Each(func(end kadm.ListedOffset) {
				at, _ := committed.Lookup(topic, end.Partition) // 0 before the first commit
				left += int(end.Offset - at.At)
			})
		}
		return left, nil
	}
	b.restart = func() {
		cluster.Close()
		start()
	}
	run(t, b)
}

// A record in a transaction that its producer aborted is no message.
func TestKafkaWithoutAbortedTransactions(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, topic))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	brokersOf := kgo.SeedBrokers(cluster.ListenAddrs()...)
	producer, err := kgo.NewClient(brokersOf, kgo.DefaultProduceTopic(topic), kgo.TransactionalID("shop"))
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	for _, id := range []string{"aborted", "committed"} {
		require.NoError(t, producer.BeginTransaction())
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}}).FirstErr())
		require.NoError(t, producer.EndTransaction(t.Context(), kgo.TransactionEndTry(id == "committed")))
	}
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), schema))
	j, err := postgres.Open(t.Context(), server.URL(), postgres.Options{Schema: schema, Deployment: "brokers", Failover: postgres.MayLose})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "ledger", Keep: time.Hour})
	require.NoError(t, err)
	ctx, end := context.WithTimeout(t.Context(), timeLimit)
	defer end()
	var done []string
	err = brokers.Kafka(ctx, c, func(_ context.Context, _ journal.Tx, m consume.Message, _ []byte) error {
		if done = append(done, m.ID); m.ID == "committed" {
			end()
		}
		return nil
	}, brokersOf, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("first"))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"committed"}, done)
}
