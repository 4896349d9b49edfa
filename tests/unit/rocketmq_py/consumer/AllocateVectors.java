import java.util.*;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;
/** Prints the rows of allocate_vectors.json beside this file; the note in it says how to run this. */
public class AllocateVectors {
  static void row(AllocateMessageQueueStrategy s, String topic, String[] brokers, int per, String[] cids, List<String> out) {
    List<MessageQueue> all = new ArrayList<>();
    for (String b : brokers) for (int i = 0; i < per; i++) all.add(new MessageQueue(topic, b, i));
    Collections.sort(all);
    List<String> c = new ArrayList<>(Arrays.asList(cids)); Collections.sort(c);
    StringBuilder sb = new StringBuilder("{\"strategy\":\"" + s.getName() + "\",\"topic\":\"" + topic + "\",\"brokers\":[");
    for (int i=0;i<brokers.length;i++) sb.append(i>0?",":"").append('"').append(brokers[i]).append('"');
    sb.append("],\"queues\":" + per + ",\"result\":{");
    for (int i=0;i<c.size();i++) {
      sb.append(i>0?",":"").append('"').append(c.get(i)).append("\":[");
      int k=0;
      for (MessageQueue q : s.allocate("G", c.get(i), all, c)) sb.append(k++>0?",":"").append("[\"" + q.getBrokerName() + "\"," + q.getQueueId() + "]");
      sb.append("]");
    }
    out.add(sb.append("}}").toString());
  }
  public static void main(String[] a) {
    List<String> out = new ArrayList<>();
    AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
    room.setConsumeridcs(new HashSet<>(Arrays.asList("hz", "sh")));
    String[] three = {"10.0.0.1@11#1", "10.0.0.2@22#2", "10.0.0.3@33#3"};
    String[] two = {"10.0.0.1@11#1", "10.0.0.3@33#3"};
    String[] one = {"solo"};
    String[] five = {"e","d","c","b","a"};
    String[] uni = {"机器-甲", "机器-乙", "host@ß"};
    for (AllocateMessageQueueStrategy s : new AllocateMessageQueueStrategy[]{new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(), new AllocateMessageQueueConsistentHash()}) {
      row(s, "TopicTest", new String[]{"broker-a"}, 8, three, out);
      row(s, "TopicTest", new String[]{"broker-a"}, 8, two, out);
      row(s, "TopicTest", new String[]{"broker-a","broker-b"}, 4, one, out);
      row(s, "T", new String[]{"broker-a"}, 3, five, out);
      row(s, "T", new String[]{"broker-b","broker-a"}, 7, five, out);
      row(s, "主题", new String[]{"经纪"}, 6, uni, out);
      row(s, "T", new String[]{"broker-a"}, 5, five, out);
    }
    row(room, "T", new String[]{"hz@a","sh@b","bj@c","plain","hz@x@y"}, 4, three, out);
    row(room, "T", new String[]{"hz@a"}, 2, three, out);
    row(room, "T", new String[]{"hz@a","sh@b","gz@b"}, 5, two, out);
    for (String s : out) System.out.println(s);
  }
}
