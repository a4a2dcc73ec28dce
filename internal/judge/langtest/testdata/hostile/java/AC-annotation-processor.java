// abuse: 36 X05
// A processor that would end the compiler, were it run.
import java.util.Set;
import javax.annotation.processing.*;
import javax.lang.model.element.TypeElement;

@SupportedAnnotationTypes("*")
public class Main extends AbstractProcessor {
    static { if (System.getProperty("java.class.path").contains("Compile")) Runtime.getRuntime().halt(9); }
    @Override public boolean process(Set<? extends TypeElement> a, RoundEnvironment e) { System.exit(9); return true; }
    public static void main(String[] args) { System.out.println("held"); }
}
