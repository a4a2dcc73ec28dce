package cli

import (
	"fmt"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/buildinfo"
)

// VersionCmd is `gavel version`.
type VersionCmd struct {
	Server bool `help:"Ask the arbiter for its version, too."`
}

// Build is what this program says of itself, here and at GET /v1/version.
func Build() gavelapi.Version {
	return gavelapi.Version{Version: buildinfo.Version, Commit: buildinfo.Commit, Go: buildinfo.Go, Protocol: gavelapi.ProtocolVersion}
}

// Run implements kong's command.
func (cmd *VersionCmd) Run(app *App) error {
	type V struct {
		Client gavelapi.Version  `json:"client"`
		Server *gavelapi.Version `json:"server,omitempty"`
	}
	v := V{Client: Build()}
	if cmd.Server {
		c, err := app.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		if v.Server, err = c.Version(app.Ctx); err != nil {
			return err
		}
	}
	switch app.Output {
	case "table", "wide":
		fmt.Fprintln(app.Out, buildinfo.String("gavel"))
		if v.Server != nil {
			fmt.Fprintln(app.Out, clean(fmt.Sprintf("arbiter %s (commit %.12s, %s, worker protocol %d)", v.Server.Version, v.Server.Commit, v.Server.Go, v.Server.Protocol)))
		}
		return nil
	}
	return printItems(app, []V{v}, v, func(v V) string { return v.Client.Version }, nil)
}
