//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func inNamespaces() *syscall.SysProcAttr { return nil }

func confine(string) error { return errors.ErrUnsupported }
