package arbiter_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/store/storetest"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// onSmallDisk moves a database to a disk of its own and returns a directory on it.
func onSmallDisk(t *testing.T, url string) string {
	t.Helper()
	admin, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	name := admin.Database
	admin.Database = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var data string
	if err := conn.QueryRow(t.Context(), "show data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(data)
	if err != nil {
		testkit.Missing(t, testkit.PG, "the server's files are not here: %v", err)
	}
	disk, err := os.MkdirTemp("/tmp", "gavel-disk-") // the server's account must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(disk) })
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m,mode=0755"); err != nil {
		testkit.Missing(t, testkit.Cgroup, "cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	space := filepath.Join(disk, "space")
	st, _ := owner.Sys().(*syscall.Stat_t)
	if err := errors.Join(os.Mkdir(space, 0o700), os.Chown(space, int(st.Uid), int(st.Gid))); err != nil {
		t.Fatal(err)
	}
	run := func(sql string) {
		conn, err := pgx.ConnectConfig(context.Background(), admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	run(fmt.Sprintf("create tablespace %s_disk location '%s'", name, space))
	t.Cleanup(func() { run(fmt.Sprintf("drop tablespace %s_disk", name)) })
	run(fmt.Sprintf("alter database %s set tablespace %s_disk", name, name))
	t.Cleanup(func() { run(fmt.Sprintf("alter database %s set tablespace pg_default", name)) })
	return disk
}

// A database without room says so, to who hands in and to who asks whether it
// is ready, for as long as it has none. Rows that need no new page are written
// all the while.
func TestAFullDiskOfTheDatabaseIsNamed(t *testing.T) {
	url := storetest.DB(t)
	disk := onSmallDisk(t, url)
	s := newStandOn(t, url, quick, func(*arbiter.Config) {})
	submit := func() error {
		bytes := make([]byte, 700) // the problem takes 1 KiB
		_, _ = rand.Read(bytes)
		_, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: "p", Language: "c", Source: base64.StdEncoding.EncodeToString(bytes)})
		return err
	}

	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(rand.Reader); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	_ = f.Close()
	var refused error
	for range 2000 {
		if refused = submit(); refused != nil {
			break
		}
	}
	if e, ok := errors.AsType[*apperr.Error](refused); !ok || e.Code != apperr.Unavailable || !strings.Contains(e.Error(), "disk is full") || !strings.Contains(e.Hint, "room") {
		t.Errorf("refused with %#v", refused)
	}
	for range 3 { // asking does not make it forget
		if checks, ok := s.Ready(t.Context()); ok || !strings.Contains(checks["database"], "disk is full") {
			t.Errorf("%v %v", ok, checks)
		}
	}

	until(t, "it is on /metrics", func() bool { return s.gauges()["gavel_db_disk_full"] == 1 })

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.awaitReady()
	until(t, "it is no more on /metrics", func() bool { full, leads := s.gauges()["gavel_db_disk_full"]; return leads && full == 0 })
	if err := submit(); err != nil {
		t.Error(err)
	}
}
