package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
)

// payPlainly is the same program without Onceward. go-retryablehttp repeats requests that got no answer, and a file
// remembers the paid invoices. Each key is the invoice's own for ever, or a new one for each call. A program with new
// keys can't remember a key whose call was cut off.
func payPlainly(ctx context.Context, at *providersAt, dir string, own bool, invoices []invoice, asked map[string]bool, told io.Writer) error {
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = 50*time.Millisecond, time.Second

	paid, err := openPaid(filepath.Join(dir, "paid.txt"))
	if err != nil {
		return err
	}
	defer paid.file.Close()

	return each(invoices, func(inv invoice) error {
		if asked[inv.ID] {
			return nil // whoever asked is gone, and nothing remembers
		}
		for !paid.has(inv.ID) {
			key := uuid.NewString()
			if own {
				key = inv.ID + "-charge"
			}
			refused, err := chargePlainly(ctx, client, at, inv, key)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case refused:
				fmt.Fprintln(told, "failed", inv.ID)
				return nil
			case err != nil:
				continue // not known to be paid: it is tried again
			}
			if err := paid.add(inv.ID); err != nil {
				return err
			}
		}
		fmt.Fprintln(told, "paid", inv.ID)
		return nil
	})
}

// chargePlainly reports whether the provider refused the charge.
func chargePlainly(ctx context.Context, client *retryablehttp.Client, at *providersAt, inv invoice, key string) (refused bool, err error) {
	plain, err := inv.request(ctx, at, key)
	if err != nil {
		return false, err
	}
	plain.Header.Set("Authorization", "Bearer sk_test_in_a_box")
	plain.Header.Set("Idempotency-Key", key)
	req, err := retryablehttp.FromRequest(plain)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	switch {
	case resp.StatusCode < 300, resp.StatusCode == http.StatusConflict && inv.Kind == conflicted: // it was made before
		return false, nil
	case resp.StatusCode == http.StatusConflict, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return false, fmt.Errorf("status %d", resp.StatusCode)
	}
	return true, nil
}

// paidFile is the plain payer's progress: a line for each paid invoice, written
// and synced before the next thing is done.
type paidFile struct {
	mu   sync.Mutex
	file *os.File
	ids  map[string]bool
}

func openPaid(path string) (*paidFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &paidFile{file: f, ids: map[string]bool{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		p.ids[strings.TrimSpace(lines.Text())] = true
	}
	if err := lines.Err(); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

func (p *paidFile) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[id]
}

func (p *paidFile) add(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.file, id); err != nil {
		return err
	}
	p.ids[id] = true
	return p.file.Sync()
}
