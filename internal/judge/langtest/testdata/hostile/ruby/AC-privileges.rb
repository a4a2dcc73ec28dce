# abuse: 13 55 61
refused = lambda do |what, &attempt|
  attempt.call
  puts what
rescue SystemCallError, ArgumentError, NotImplementedError, SecurityError
  nil
end
refused.call('became root') { Process::UID.change_privilege(0) }
refused.call('killed process 1') { Process.kill(:KILL, 1) }
refused.call('stopped its parent') { Process.kill(:STOP, Process.ppid) }
refused.call('raised a limit') { Process.setrlimit(:NOFILE, 100_000, 100_000) }
refused.call('raised its priority') { raise ArgumentError if Process.setpriority(Process::PRIO_PROCESS, 0, -10) != 0 }
refused.call('changed its root') { Dir.chroot('/w') }
puts 'held'
