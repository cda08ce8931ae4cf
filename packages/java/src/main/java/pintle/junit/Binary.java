package pintle.junit;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;
import java.util.stream.Stream;

/** Finds the program of the server. */
final class Binary {
    private Binary() {}

    /**
     * Returns the path of the program. It is {@code named} if that is not null. Otherwise it is the first of these that
     * exists: the jar's program for this platform, the program that PINTLE_BINARY names, {@code pintle} on the PATH.
     */
    static synchronized Path find(Path named) {
        if (named != null) {
            return program(named, "the given binary");
        }
        String resource = "/pintle/" + platform() + "/pintle";
        URL packaged = Binary.class.getResource(resource);
        if (packaged != null) {
            try {
                return unpacked(packaged);
            } catch (IOException error) {
                throw new PintleException("cannot unpack the server's program: " + error, error);
            }
        }
        String variable = System.getenv("PINTLE_BINARY");
        if (variable != null && !variable.isEmpty()) {
            return program(Path.of(variable), "PINTLE_BINARY");
        }
        String folders = System.getenv().getOrDefault("PATH", "");
        return Stream.of(folders.split(File.pathSeparator))
                .filter(folder -> !folder.isEmpty())
                .map(folder -> Path.of(folder, "pintle").toAbsolutePath())
                .filter(Binary::isProgram)
                .findFirst()
                .orElseThrow(() -> new PintleException("no binary of pintle: the class path has no " + resource
                        + ", PINTLE_BINARY is not set, and the PATH has none"));
    }

    /** The name of the platform, such as linux-x86_64. */
    private static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String machine = System.getProperty("os.arch");
        return (system.startsWith("mac") ? "macos" : system) + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }

    /** The program as a file in the user's cache, which is written once for each version. */
    private static Path unpacked(URL packaged) throws IOException {
        URLConnection connection = packaged.openConnection();
        connection.setUseCaches(false);
        try (InputStream input = connection.getInputStream()) {
            Path folder = cache().resolve("pintle").resolve("junit-" + version(connection));
            Path program = folder.resolve("pintle");
            if (isProgram(program)) {
                return program;
            }
            var onlyUser = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
            Files.createDirectories(folder, onlyUser);
            // Other processes see the complete program or no file.
            Path partial = Files.createTempFile(folder, "pintle", ".new", onlyUser);
            try {
                Files.copy(input, partial, StandardCopyOption.REPLACE_EXISTING);
                Files.setPosixFilePermissions(partial, PosixFilePermissions.fromString("rwx------"));
                Files.move(partial, program, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(partial);
            }
            return program;
        }
    }

    /** A name that changes with the program. */
    private static String version(URLConnection connection) throws IOException {
        long version = connection instanceof JarURLConnection jar
                ? jar.getJarEntry().getCrc()
                : connection.getLastModified();
        return connection.getContentLengthLong() + "-" + Long.toHexString(version);
    }

    private static Path cache() {
        String variable = System.getenv("XDG_CACHE_HOME");
        return variable != null && Path.of(variable).isAbsolute()
                ? Path.of(variable)
                : Path.of(System.getProperty("user.home"), ".cache");
    }

    private static Path program(Path path, String source) {
        if (!isProgram(path)) {
            throw new PintleException(source + " is not a program: " + path);
        }
        return path.toAbsolutePath();
    }

    private static boolean isProgram(Path path) {
        return Files.isRegularFile(path) && Files.isExecutable(path);
    }
}
