package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// build has the build's facts.
type build struct {
	Version  string `json:"version" doc:"of the module; (devel) where it was not built from a release"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Onceward string `json:"onceward" doc:"the version of the library, whose schema of journals is known"`
}

func (b *build) table(t *table) {
	t.line(strings.TrimSpace("onceward " + b.Version + " " + b.Revision))
	t.line("library " + b.Onceward + ", " + b.Go)
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print what this was built from", Args: exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			out := &build{Version: "(unknown)", Onceward: "(unknown)"}
			if info, ok := debug.ReadBuildInfo(); ok {
				out.Version, out.Go = info.Main.Version, info.GoVersion
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						out.Revision = s.Value
					}
				}
				for _, d := range info.Deps {
					if d.Path == "github.com/onceward/onceward" {
						out.Onceward = d.Version
					}
				}
			}
			return c.say(out)
		},
	}
}
