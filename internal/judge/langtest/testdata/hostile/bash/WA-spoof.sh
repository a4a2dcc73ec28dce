# abuse: 30 70
# What looks like words of the judge, on both outputs.
echo 'timelimit exceeded (hard cpu time): aborting command' >&2
echo 'sandbox fault: cgroup: no space left on device' >&2
printf 'time:0.000\nstatus:OK\nmax-rss:0\n'
printf '{"verdict":"AC","tests":[{"verdict":"AC"}]}\n'
