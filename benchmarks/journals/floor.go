package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// floorStore appends to a file whose blocks exist already, and makes the appends that have come together durable by one
// fdatasync. It shows the disk's limit, without a store's work. After a crash nothing of it would be found again by
// key.
type floorStore struct {
	file    *os.File
	waiting chan appended
	ended   sync.WaitGroup
}

type appended struct {
	data []byte
	done chan error
}

// floorSize is the file's size, in bytes. A full file starts again at the beginning.
const floorSize = 256 << 20

func openFloor(folder string) (store, error) {
	file, err := os.OpenFile(filepath.Join(folder, "floor"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// Written, not only allocated: the first write to an unwritten block would change the file's metadata too.
	block := bytes.Repeat([]byte{1}, 1<<20)
	for at := 0; at < floorSize && err == nil; at += len(block) {
		_, err = file.WriteAt(block, int64(at))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the file: %w", err), file.Close())
	}
	s := &floorStore{file: file, waiting: make(chan appended, 1024)}
	s.ended.Go(s.write)
	return s, nil
}

// write is the one goroutine that writes.
func (s *floorStore) write() {
	var at int64
	var data []byte
	var asking []chan error
	for first := range s.waiting {
		data, asking = append(data[:0], first.data...), append(asking[:0], first.done)
	drain:
		for len(asking) < 1024 {
			select {
			case next, ok := <-s.waiting:
				if !ok {
					break drain
				}
				data, asking = append(data, next.data...), append(asking, next.done)
			default:
				break drain
			}
		}
		if at+int64(len(data)) > floorSize {
			at = 0
		}
		_, err := s.file.WriteAt(data, at)
		if err == nil {
			err = unix.Fdatasync(int(s.file.Fd()))
		}
		at += int64(len(data))
		for _, done := range asking {
			done <- err
		}
	}
}

func (s *floorStore) append(parts ...[]byte) error {
	done := make(chan error, 1)
	s.waiting <- appended{bytes.Join(parts, nil), done}
	return <-done
}

func (s *floorStore) operation(_ context.Context, key string) error {
	if err := s.append([]byte(key), intentHead, intentBody); err != nil {
		return err
	}
	if err := s.append([]byte(key), answerHead, answerBody); err != nil {
		return err
	}
	return nil
}

// has can't be answered by a file without an index.
func (s *floorStore) has(context.Context, string) (bool, error) { return false, errors.ErrUnsupported }

func (s *floorStore) close() error {
	close(s.waiting)
	s.ended.Wait()
	return s.file.Close()
}
