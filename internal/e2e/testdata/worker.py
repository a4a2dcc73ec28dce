"""A worker for Python programs, written from docs/reference/worker-protocol.md
alone and with nothing but Python's library. It has no sandbox: never give it
anybody else's programs.

    worker.py URL INVITATION NAME DIRECTORY
"""

import base64
import ctypes
import hashlib
import http.client
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse
import uuid

URL = urllib.parse.urlsplit(sys.argv[1])
DIRECTORY = sys.argv[4]
OUTBOX = os.path.join(DIRECTORY, "outbox")
token = None
stopping = threading.Event()


class Refused(Exception):
    def __init__(self, status, problem):
        super().__init__(f"{status} {problem}")
        self.status, self.problem = status, problem


def once(method, path, body=None, timeout=30, accept="application/json"):
    """One call; raises OSError or HTTPException where no good answer came."""
    line = http.client.HTTPConnection(URL.hostname, URL.port, timeout=timeout)
    try:
        head = {"Gavel-Protocol": "1", "Content-Type": "application/json", "Accept": accept}
        if token:
            head["Authorization"] = "Bearer " + token
        line.request(method, path, None if body is None else json.dumps(body), head)
        answer = line.getresponse()
        content = answer.read()
        if answer.status in (408, 429, 502, 503, 504):
            raise OSError(f"{answer.status}: try again")
        if answer.status >= 400:
            raise Refused(answer.status, json.loads(content))
        if answer.getheader("Content-Type", "").startswith("application/json"):
            return json.loads(content)
        return content
    finally:
        line.close()


def call(name, body, timeout=30, until=None):
    """The same call again, with growing, random pauses, until it is answered."""
    pause = 0.1
    while True:
        try:
            return once("POST", "/v1/worker/" + name, body, timeout)
        except (OSError, http.client.HTTPException):
            if until is not None and time.monotonic() > until:
                raise
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(pause * 2, 5)


class Lease:
    """A lease and the beats that keep it alive."""

    def __init__(self, granted):
        self.granted, self.token = granted, granted["lease_token"]
        self.lost, self.ended, self.done = threading.Event(), threading.Event(), 0
        self.confirmed = threading.Event()
        self.end = time.monotonic() + granted["ttl_ms"] / 1000 * 0.9
        self.beating = threading.Thread(target=self.beat)
        self.beating.start()

    def beat(self):
        while not self.ended.is_set() and time.monotonic() < self.end:
            sent = time.monotonic()
            try:
                progress = {"phase": "running", "tests_done": self.done, "tests_total": self.done}
                answer = once("POST", "/v1/worker/heartbeat", {"lease_token": self.token, "progress": progress}, 5)
                self.end = sent + answer["ttl_ms"] / 1000 * 0.9
                self.confirmed.set()
                pause = self.granted["heartbeat_ms"] / 1000
            except Refused as gone:
                print("lease lost:", gone.problem.get("reason"), flush=True)
                break
            except (OSError, http.client.HTTPException):
                pause = 0.2
            self.ended.wait(pause)
        if not self.ended.is_set():
            self.lost.set()

    def finish(self):
        self.ended.set()
        self.beating.join()


def package(digest):
    """The manifest and the files of a package, checked."""
    raw = once("GET", "/v1/worker/packages/" + digest, timeout=60, accept="application/x-tar")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for entry in tar:
            files[entry.name] = tar.extractfile(entry).read()
    if "sha256:" + hashlib.sha256(files["manifest.json"]).hexdigest() != digest:
        raise ValueError("the manifest is not that of the package")
    manifest = json.loads(files["manifest.json"])
    for f in manifest["files"]:
        if hashlib.sha256(files[f["path"]]).hexdigest() != f["sha256"]:
            raise ValueError(f["path"] + " is damaged")
    return manifest, files


def run(program, given, limits, lost):
    """Runs a program; its output, exit code, CPU and wall time, and whether it was too slow."""
    seconds = limits["cpu_us"] / 1e6

    def bound():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # a run dies with its worker
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))

    began, before = time.monotonic(), os.times()
    child = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, preexec_fn=bound)

    def watch():
        while child.returncode is None and not lost.is_set() and not stopping.is_set() and time.monotonic() < began + limits["wall_us"] / 1e6:
            time.sleep(0.02)
        child.kill()

    threading.Thread(target=watch, daemon=True).start()
    output, _ = child.communicate(given)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return output, child.returncode, cpu, time.monotonic() - began, cpu > seconds or child.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def judge(lease):
    work = lease.granted
    manifest, files = package(work["package_digest"])
    if manifest["checker"]["kind"] != "tokens":
        return None
    source = base64.b64decode(work["source"])
    report = {"limits": work["limits"], "cpu_us": 0, "wall_us": 0, "memory_bytes": 0, "compile": {"log": ""}, "tests": [],
              "provenance": {"worker_build": "worker.py", "toolchain": sys.version, "package_digest": work["package_digest"]}}
    try:
        compile(source, "main.py", "exec")
    except SyntaxError as wrong:
        report.update(verdict="CE", compile={"log": str(wrong)})
        return report
    program = os.path.join(DIRECTORY, lease.token + ".py")
    with open(program, "wb") as f:
        f.write(source)
    try:
        return tried(lease, manifest, files, program, report)
    finally:
        os.remove(program)


def tried(lease, manifest, files, program, report):
    """The report with a row for each test; None when the run was killed."""
    verdict = "AC"
    for test in manifest["tests"]:
        row = {"name": test["name"], "verdict": "skipped"}
        if verdict == "AC" or lease.granted["stop_rule"] == "all":
            output, code, cpu, wall, slow = run(program, files[test["input"]], lease.granted["limits"], lease.lost)
            if lease.lost.is_set() or stopping.is_set():
                return None
            same = output.lower().split() == files[test["answer"]].lower().split()
            row["verdict"] = "TLE" if slow else "RE" if code else "AC" if same else "WA"
            row.update(cpu_us=int(cpu * 1e6), wall_us=int(wall * 1e6), exit_code=max(code, 0))
            report["cpu_us"], report["wall_us"] = max(report["cpu_us"], row["cpu_us"]), max(report["wall_us"], row["wall_us"])
            if verdict == "AC":
                verdict = row["verdict"]
        report["tests"].append(row)
        lease.done += 1
    report["verdict"] = verdict
    return report


def save(result):
    """Writes a result so that it survives a crash from here on."""
    path = os.path.join(OUTBOX, result["lease_token"])
    with open(path + ".new", "w") as f:
        json.dump(result, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".new", path)
    folder = os.open(OUTBOX, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return path


def deliver(path):
    with open(path) as f:
        result = json.load(f)
    try:
        outcome = call("result", result)["outcome"]
    except Refused as refused:
        if refused.status != 422:
            raise
        fault = {"blame": "host", "message": "its report was refused"}
        outcome = call("result", {"lease_token": result["lease_token"], "report": {"fault": fault}})["outcome"]
    print("delivered", result["lease_token"], outcome, flush=True)
    os.remove(path)


def work(granted):
    lease = Lease(granted)
    while not lease.confirmed.wait(0.05):
        if lease.lost.is_set():
            return
    try:
        report = judge(lease)
    except Exception as failed:  # a failure of the machine is a fault, never a verdict
        report = {"fault": {"blame": "host", "message": str(failed)}}
    if lease.lost.is_set():
        lease.finish()
        return
    if report is None:
        reason = "shutdown" if stopping.is_set() else "cannot"
        print("released", call("release", {"lease_token": lease.token, "reason": reason}), flush=True)
    else:
        deliver(save({"lease_token": lease.token, "report": report}))
    lease.finish()


def remembered(name, make):
    path = os.path.join(DIRECTORY, name)
    if os.path.exists(path):
        with open(path) as f:
            return f.read()
    value = make()
    with open(path, "w") as f:
        f.write(value)
    return value


def main():
    global token
    os.makedirs(OUTBOX, exist_ok=True)
    token = remembered("token", lambda: call("enrol", {"invitation": sys.argv[2], "name": sys.argv[3]})["token"])
    previous = remembered("session", lambda: "")
    session = str(uuid.uuid4())
    for name in os.listdir(OUTBOX):
        if not name.endswith(".new"):
            deliver(os.path.join(OUTBOX, name))
    claim = {"session": session, "slots": 1, "total_slots": 1, "wait_ms": 5000, "capabilities": {
        "languages": [{"id": "python3", "version": sys.version.split()[0]}], "memory_bytes": 2 << 30, "cores": 1,
        "arch": os.uname().machine, "build": "worker.py", "kernel": os.uname().release, "memory_meter": "rusage", "sandbox": "none"}}
    if previous:
        claim["previous_session"] = previous
    while not stopping.is_set():
        claim["request_id"] = str(uuid.uuid4())
        try:
            answer = call("claim", claim, timeout=15)
        except Refused as refused:
            if refused.status != 409:
                raise
            print("another process claims:", refused, flush=True)
            time.sleep(random.uniform(0.5, 1))
            continue
        if claim.pop("previous_session", None) or not previous:
            previous = session
            with open(os.path.join(DIRECTORY, "session"), "w") as f:
                f.write(session)
        for granted in answer["leases"] if answer else []:
            work(granted)


signal.signal(signal.SIGTERM, lambda *_: stopping.set())
main()
