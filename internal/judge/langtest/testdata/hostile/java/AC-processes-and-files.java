// abuse: 35 54 75
import java.io.*;
import java.net.*;
import java.nio.file.*;

public class Main {
    static void refused(String what, java.util.concurrent.Callable<?> c) {
        try { c.call(); System.out.println(what); } catch (Throwable e) { }
    }
    public static void main(String[] args) {
        refused("reads /etc/shadow", () -> Files.readAllBytes(Path.of("/etc/shadow")));
        refused("reads /proc/1/environ", () -> Files.readAllBytes(Path.of("/proc/1/environ")));
        refused("writes beside the program", () -> Files.write(Path.of("/box/x"), new byte[1]));
        refused("loads a library", () -> { System.load("/w/x.so"); return null; });
        refused("attaches to process 1", () -> ProcessHandle.of(1).orElseThrow().destroyForcibly() ? 1 : Integer.parseInt("x"));
        refused("connects", () -> new Socket("127.0.0.1", 22));
        System.out.println("held");
    }
}
