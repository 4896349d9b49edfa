import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads or writes one offset of a broadcasting group. Arguments: directory, group, topic, and the offset to write. */
public class LocalOffsets {
    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.localOffsetStoreDir", args[0]);
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr("127.0.0.1:1");
        MQClientInstance client = MQClientManager.getInstance().getOrCreateMQClientInstance(config);
        LocalFileOffsetStore store = new LocalFileOffsetStore(client, args[1]);
        MessageQueue queue = new MessageQueue(args[2], "broker-a", 1);
        store.load();
        System.out.println("CLIENT\t" + client.getClientId());
        System.out.println("READ\t" + store.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
        if (args.length > 3) {
            store.updateOffset(queue, Long.parseLong(args[3]), false);
            store.persist(queue);
        }
        System.exit(0);
    }
}
