package judge

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// builtTar is how a build script's results come out of the box.
const builtTar = ".gavel-built.tar"

// buildCommand runs a package's build script on a copy of its directory.
const buildCommand = `cp -R ` + sandbox.SourceDir + `/. . && chmod -R u+w . && ./build && ` +
	`tar -c --exclude=./` + builtTar + ` -f ` + builtTar + ` .`

// buildScript runs the executable build, if there is one, and expects an
// executable run.
func (e *Engine) buildScript(ctx context.Context, box *lazyBox, pkg *problem.Package, c packaged, dir string) (*builtChecker, error) {
	program := checker.Program{Argv: []string{sandbox.ProgramDir + "/run"}, Env: scriptEnv}
	src := pkg.Path(c.path)
	if executable(filepath.Join(src, "build")) == nil {
		if err := e.runBuildScript(ctx, box, c.what, src, dir); err != nil {
			return nil, err
		}
		src = dir
	}
	if err := executable(filepath.Join(src, "run")); err != nil {
		return nil, faultf(BlameChecker, err, "%s has no executable file run", c.what)
	}
	program.Mounts = []sandbox.Mount{{Host: src, Box: sandbox.ProgramDir}}
	return &builtChecker{program: program, toolchain: scriptLanguage}, nil
}

var scriptEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + sandbox.WorkDir, "LANG=C.UTF-8"}

func executable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return errors.New("not executable")
	}
	return nil
}

// scriptLimits are generous: a build script may compile several programs.
var scriptLimits = language.CompileLimits{
	CPUMS: 60_000, WallMS: 180_000, MemoryBytes: 2 << 30, FileBytes: 128 << 20, DiskBytes: 512 << 20, Processes: 128,
}

func (e *Engine) runBuildScript(ctx context.Context, box *lazyBox, what, src, dir string) error {
	var log syncBuffer
	res, err := box.Run(ctx, &sandbox.Spec{
		Argv:    []string{"/usr/bin/sh", "-c", buildCommand},
		Env:     scriptEnv,
		Mounts:  []sandbox.Mount{{Host: src, Box: sandbox.SourceDir}},
		Stdout:  &log,
		Stderr:  &log,
		CopyOut: []sandbox.CopyOut{{Path: builtTar, MaxBytes: scriptLimits.FileBytes}},
		Limits:  compileLimits(scriptLimits),
		Profile: sandbox.ProfileCompile,
	})
	defer closeFiles(res)
	if err != nil {
		return asFault(ctx, err, "run the build script of the "+what)
	}
	why, err := compileFailure(res, scriptLimits)
	if err != nil {
		return err
	}
	text, _ := log.text()
	f := res.Files[builtTar]
	if why == "" && f.State != sandbox.FileOK {
		why = "what it built is " + strings.ReplaceAll(string(f.State), "_", " ")
	}
	if why != "" {
		return faultf(BlameChecker, nil, "build script of the %s failed: %s", what, joinLog(why, text))
	}
	if err := unpackBuilt(f.Content, dir); err != nil {
		if os.IsPermission(err) || errors.Is(err, errBadBuilt) {
			return faultf(BlameChecker, err, "build script of the %s left something that can not be kept", what)
		}
		return asFault(ctx, err, "keep the built "+what)
	}
	return nil
}

var errBadBuilt = errors.New("only files and directories can be kept")

// unpackBuilt writes a tar of our own making, with content that is not: names
// and types are checked, and nothing outside dir can be reached.
func unpackBuilt(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errBadBuilt, err)
		}
		name := filepath.Clean(h.Name)
		switch {
		case name == ".":
		case !filepath.IsLocal(name):
			return fmt.Errorf("%w: %q", errBadBuilt, h.Name)
		case h.Typeflag == tar.TypeDir:
			if err := errors.Join(root.Mkdir(name, 0o755), root.Chmod(name, 0o755)); err != nil {
				return err
			}
		case h.Typeflag == tar.TypeReg:
			mode := os.FileMode(0o444)
			if h.Mode&0o111 != 0 {
				mode = 0o555
			}
			f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, tr)
			if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: %q", errBadBuilt, h.Name)
		}
	}
}
