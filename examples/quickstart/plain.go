package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
)

// payPlainly is how the same program does without Onceward: go-retryablehttp sends
// every attempt of a call under one fresh key, and a file remembers the invoices
// that are paid. What it can't remember is the key of a call that was cut off.
func payPlainly(ctx context.Context, provider *url.URL, dir string, invoices []invoice, told io.Writer) error {
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.RetryWaitMin, client.RetryWaitMax = 50*time.Millisecond, time.Second

	paid, err := openPaid(filepath.Join(dir, "paid.txt"))
	if err != nil {
		return err
	}
	defer paid.file.Close()

	return each(invoices, func(inv invoice) error {
		for !paid.has(inv.ID) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := chargePlainly(ctx, client, provider, inv); err != nil {
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

func chargePlainly(ctx context.Context, client *retryablehttp.Client, provider *url.URL, inv invoice) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost,
		provider.JoinPath("v1/charges").String(), []byte(inv.form().Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
	req.Header.Set("Idempotency-Key", uuid.NewString())
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
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
