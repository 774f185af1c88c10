package pgproxy_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/pgproxy"
)

// server answers every Sync with the number of bytes that it has received, and ReadyForQuery.
type server struct {
	net.Listener
	heard chan []byte // the bytes of one connection, once it has ended
}

func serve(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{l, make(chan []byte, 100)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return s
}

var ready = []byte{'Z', 0, 0, 0, 5, 'I'}

func (s *server) answer(conn net.Conn) {
	defer conn.Close()
	var all []byte
	defer func() { s.heard <- all }()
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head))-4); err != nil {
		return
	}
	if _, err := conn.Write(ready); err != nil {
		return
	}
	for one := make([]byte, 1); ; {
		if _, err := conn.Read(one); err != nil {
			return
		}
		all = append(all, one...)
		if n := len(all); n >= 5 && string(all[n-5:]) == string(message('S', "")) {
			if _, err := conn.Write(append(message('C', "done\x00"), ready...)); err != nil {
				return
			}
		}
	}
}

func message(kind byte, body string) []byte {
	m := append([]byte{kind}, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(m[1:], uint32(4+len(body)))
	return append(m, body...)
}

var startup = append(append([]byte{0, 0, 0, 17}, 0, 3, 0, 0), "user\x00me\x00\x00"...)

// pipeline is a statement with its Sync, which a driver sends in one piece.
func pipeline(sql string) (all []byte) {
	for _, m := range [][]byte{
		message('P', "\x00"+sql+"\x00\x00\x00"), message('B', "\x00\x00\x00\x00\x00\x00\x00\x00"), message('E', "\x00\x00\x00\x00\x00"), message('S', ""),
	} {
		all = append(all, m...)
	}
	return all
}

var answer = append(message('C', "done\x00"), ready...)

func dial(t *testing.T, p *pgproxy.Proxy) net.Conn {
	conn, err := net.DialTCP("tcp", nil, p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write(startup)
	require.NoError(t, err)
	assert.Equal(t, ready, read(t, conn, len(ready)))
	return conn
}

func read(t *testing.T, conn net.Conn, n int) []byte {
	t.Helper()
	got := make([]byte, n)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	n, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	return got[:n]
}

func start(t *testing.T, s *server) *pgproxy.Proxy {
	p, err := pgproxy.Start("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

func ask(t *testing.T, conn net.Conn, sql string) {
	t.Helper()
	_, err := conn.Write(pipeline(sql))
	require.NoError(t, err)
}

func TestProxyPassesOn(t *testing.T) {
	s := serve(t)
	p := start(t, s)
	p.Delay(time.Millisecond)
	conn := dial(t, p)
	for range 3 {
		ask(t, conn, "SELECT 1")
	}
	for range 3 {
		assert.Equal(t, answer, read(t, conn, len(answer)))
	}
	assert.Equal(t, 1, p.Links())
	require.NoError(t, conn.Close())
	assert.Len(t, <-s.heard, 3*len(pipeline("SELECT 1")))
}

func TestProxyCutsAtEachByte(t *testing.T) {
	s := serve(t)
	p := start(t, s)
	commit := func(ex pgproxy.Exchange) bool { return len(ex.SQL) == 1 && ex.SQL[0] == "COMMIT" }
	for at := 0; at <= len(answer); at++ {
		conn := dial(t, p)
		f := p.Arm(pgproxy.Fault{Match: commit, Side: pgproxy.Answer, Byte: at})
		ask(t, conn, "SELECT 1")
		assert.Equal(t, answer, read(t, conn, len(answer)), "what it is not armed for passes")
		ask(t, conn, "COMMIT")
		got, _ := io.ReadAll(conn)
		assert.Equal(t, answer[:at], got)
		assert.Equal(t, 2, f.Exchange().Number)
		assert.Equal(t, at, f.Passed())
		assert.Len(t, <-s.heard, len(pipeline("SELECT 1"))+len(pipeline("COMMIT")))
	}
	whole := pipeline("COMMIT")
	for at := 0; at <= len(whole); at++ {
		conn := dial(t, p)
		p.Arm(pgproxy.Fault{Match: commit, Side: pgproxy.Request, Byte: at})
		ask(t, conn, "COMMIT")
		_, _ = io.ReadAll(conn)
		assert.Equal(t, string(whole[:at]), string(<-s.heard))
	}
}

func TestProxyHoldsAPipeline(t *testing.T) {
	s := serve(t)
	p := start(t, s)
	conn := dial(t, p)
	f := p.Arm(pgproxy.Fault{Side: pgproxy.Request, Then: pgproxy.Hold})
	ask(t, conn, "COMMIT")
	<-f.Done()
	require.NoError(t, conn.Close())
	assert.Empty(t, s.heard)
	f.Release()
	assert.Equal(t, pipeline("COMMIT"), <-s.heard, "it arrives, though who asked is gone")
}

func TestProxyDropsAClient(t *testing.T) {
	s := serve(t)
	p := start(t, s)
	conn := dial(t, p)
	f := p.Arm(pgproxy.Fault{Side: pgproxy.Request, Byte: 10, Then: pgproxy.Drop})
	ask(t, conn, "COMMIT")
	_, err := io.ReadAll(conn)
	require.Error(t, err)
	<-f.Done()
	assert.Empty(t, s.heard, "the server was not told")
	f.Release()
	assert.Equal(t, pipeline("COMMIT")[:10], <-s.heard)
}

func TestProxyCutsEverybodyOff(t *testing.T) {
	s := serve(t)
	p := start(t, s)
	conn := dial(t, p)
	p.CutOff()
	ask(t, conn, "COMMIT")
	late, err := net.DialTCP("tcp", nil, p.Addr())
	require.NoError(t, err)
	_, err = late.Write(startup)
	require.NoError(t, err)
	for _, c := range []net.Conn{conn, late} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err = c.Read(make([]byte, 1))
		var silent net.Error
		require.ErrorAs(t, err, &silent)
		assert.True(t, silent.Timeout())
	}
	p.Heal()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	assert.Empty(t, <-s.heard)
	ask(t, dial(t, p), "COMMIT")
}
